"""The passes, one a file, in the order in which they run: simplify, fuse, place, overlap.

fold_constants                calls whose arguments are known become constants
merge_common_subexpressions   what is computed twice is computed once
drop_dead_code                what feeds nothing goes away
drop_unread_outputs           outputs of models that nothing reads are not made
glue_into_models              ops around a model become nodes of the model's own graph
merge_models                  models that feed each other become one model
merge_siblings                models side by side on one input become one model
generate_kernels              chains of ops between stages of a device become kernels there
choose_backends               what TensorRT does not take is left to ONNX Runtime
place_transfers               values are copied where they cross to another device
run_together                  what need not wait for each other runs at once
"""
