"""The module that model files import, where no server is needed."""

import json
from typing import Any

import numpy as np
import pytest

import headrace.runtime.triton_python.worker.triton_python_backend_utils as pb_module
from headrace.runtime.custom_metrics import CustomMetrics, Refused, rendered

pb: Any = pb_module  # as a model has it


def test_tensors_go_through_dlpack_without_a_copy() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    tensor = pb.Tensor("x", values)
    assert np.shares_memory(np.from_dlpack(tensor), values)
    other = pb.Tensor.from_dlpack("y", tensor.to_dlpack())
    assert (other.name(), other.shape(), other.is_cpu()) == ("y", [2, 3], True)
    assert np.shares_memory(other.as_numpy(), values)
    with pytest.raises(pb.TritonModelException, match="contiguous"):
        pb.Tensor.from_dlpack("z", values.T)
    with pytest.raises(pb.TritonModelException, match="string"):
        pb.Tensor("t", np.array(["a"], object)).to_dlpack()


def test_bfloat16_goes_through_dlpack_both_ways() -> None:
    bits = np.array([[0x3F80, 0xC040, 0x7FC0]], np.uint16)  # 1, -3 and none
    tensor = pb.Tensor.received("x", "BF16", bits)
    with pytest.raises((BufferError, RuntimeError)):  # it says so, and NumPy has no such type
        np.from_dlpack(tensor)
    for lent in (tensor, tensor.to_dlpack()):
        other = pb.Tensor.from_dlpack("y", lent)
        assert (other.name(), other.shape(), other.triton_dtype()) == ("y", [1, 3], 14)
        assert np.shares_memory(other.packed()[2], bits)
    whole = pb.Tensor.from_dlpack("z", pb.Tensor("w", bits).to_dlpack())
    assert whole.as_numpy().dtype == np.uint16


@pytest.mark.slow
def test_bfloat16_of_torch_is_taken_and_given() -> None:
    torch = pytest.importorskip("torch")
    values = torch.tensor([1.0, 2.5, -3.0], dtype=torch.bfloat16)
    for lent in (values, torch.utils.dlpack.to_dlpack(values)):
        tensor = pb.Tensor.from_dlpack("x", lent)
        assert torch.equal(torch.from_dlpack(tensor.to_dlpack()), values)
        assert torch.equal(torch.from_dlpack(tensor), values)


def test_types_have_the_numbers_that_models_know() -> None:
    for number, name in enumerate(pb.TRITON_STRING_TO_NUMPY, start=1):
        kind = pb.triton_string_to_numpy(name)
        assert pb.numpy_to_triton_type(kind) == number
        assert np.dtype(pb.triton_to_numpy_type(number)) == np.dtype(kind)
        assert pb.Tensor("x", np.zeros(1, kind)).triton_dtype() == number
    assert pb.numpy_to_triton_type(np.bytes_) == 13


def test_texts_of_any_kind_are_told_as_bytes() -> None:
    texts = np.array([b"a", "bc"], object)
    assert pb.deserialize_bytes_tensor(pb.serialize_byte_tensor(texts)).tolist() == [b"a", b"bc"]
    assert pb.serialize_byte_tensor(np.array([], object)) == ()
    for given in (np.array(["x"]), np.array([b"x"]), np.array(["x"], object)):
        assert pb.Tensor("x", given).triton_dtype() == 13


def test_a_configuration_is_completed_and_what_contradicts_it_refused() -> None:
    given = {"name": "m", "max_batch_size": 0, "input": [{"name": "x", "data_type": "TYPE_FP32"}]}
    config = pb.ModelConfig(json.dumps(given))
    config.set_max_batch_size(4)
    config.set_dynamic_batching()
    config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [-1]})
    config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [2]})
    config.set_model_transaction_policy({"decoupled": True})
    found = config.as_dict()
    assert found["input"] == [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}]
    assert (found["max_batch_size"], found["dynamic_batching"]) == (4, {})
    assert pb.using_decoupled_model_transaction_policy(found)
    assert pb.get_output_config_by_name(found, "y")["dims"] == [2]
    assert pb.get_input_config_by_name(found, "z") is None
    wrong = [
        (lambda: config.set_max_batch_size(2), "specified max_batch_size 2"),
        (lambda: config.add_input({"name": "x", "data_type": "TYPE_INT8", "dims": []}), "datatype"),
        (lambda: config.add_output({"name": "y", "data_type": "TYPE_FP32", "dims": [3]}), "dims"),
        (lambda: config.add_output({"name": "z", "dims": [3]}), "missing 'data_type'"),
        (lambda: config.add_output({"name": "z", "optional": True}), "other than"),
        (lambda: config.set_model_transaction_policy({"decoupled": False}), "already set"),
        (lambda: config.set_model_transaction_policy({"x": False}), "other than 'decoupled'"),
    ]
    for change, text in wrong:
        with pytest.raises(ValueError, match=text):
            change()
    sequences = pb.ModelConfig(json.dumps({"name": "m", "sequence_batching": {}}))
    with pytest.raises(ValueError, match="sequence_batching"):
        sequences.set_dynamic_batching()


def test_requests_take_names_as_they_come_out_of_tensors() -> None:
    request = pb.InferenceRequest(
        model_name=np.array([b"m"], object)[0], inputs=[], requested_output_names=[b"y"]
    )
    assert request.requested_output_names() == {"y"}
    for wrong in ({"inputs": [5]}, {"correlation_id": 1.5}, {"parameters": {"a": []}}):
        with pytest.raises((TypeError, pb.TritonModelException)):
            pb.InferenceRequest(model_name="m", **wrong)
    with pytest.raises(pb.TritonModelException, match="while a model is served"):
        request.exec()


def test_metrics_have_the_names_and_values_that_models_give_them() -> None:
    metrics = CustomMetrics()
    labels = (("a", 'x"\n'),)
    for name, kind in (("c", "counter"), ("g", "gauge"), ("h", "histogram")):
        metrics.declare(name, "says\nwhat", kind)
        metrics.label(name, labels, [1.0, 10.0] if kind == "histogram" else None)
    metrics.change("c", labels, "increment", 2)
    metrics.change("g", labels, "set", -1.5)
    for value in (0.5, 5, 50):
        metrics.change("h", labels, "observe", value)
    text = rendered(metrics.families()).decode()
    assert '# HELP c says\\nwhat\n# TYPE c counter\nc{a="x\\"\\n"} 2.0\n' in text
    assert 'g{a="x\\"\\n"} -1.5\n' in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith("h_")] == [
        "1",
        "2",
        "3",
        "3",
        "55.5",
    ]
    with pytest.raises(Refused, match="exists as a counter"):
        metrics.declare("c", "", "gauge")
    for wrong in (("c", labels, "set", 1), ("c", labels, "increment", -1), ("c", (), "value", 0)):
        with pytest.raises(Refused):
            metrics.change(*wrong)
