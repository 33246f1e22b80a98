"""What `headrace doctor` finds: `machine` says what there is, `extras` what is installed and what
each extra would bring, `findings` what is wrong (`problems`), `needs` what a plan lacks here.
"""
