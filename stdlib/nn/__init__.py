"""What stands before and after a network: softmax, top k, one-hot and the like."""
