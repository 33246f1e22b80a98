"""The passes, one a file: simplify, then fuse, then place.

fold_constants                calls whose arguments are known become constants
merge_common_subexpressions   what is computed twice is computed once
drop_dead_code                what feeds nothing goes away
glue_into_models              ops around a model become nodes of the model's own graph
merge_models                  models that feed each other become one model
"""
