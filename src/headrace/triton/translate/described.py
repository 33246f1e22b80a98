"""A configuration as clients read it: the JSON that a tritonserver would answer."""

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from ..config import Message


def as_json(message: Message) -> dict[str, Any]:  # Any: JSON
    """Return all fields, also those that are not said; of an `oneof`, and of messages, those that
    are."""
    found: dict[str, Any] = {}  # Any: JSON
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = {str(key): _value(inner, one) for key, one in value.items()}
        elif field.is_repeated:
            found[field.name] = [_value(field, one) for one in value]
        else:
            found[field.name] = _value(field, value)
    return found


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _value(field: FieldDescriptor, value: Any) -> Any:  # Any: JSON
    if field.message_type is not None:
        return as_json(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
