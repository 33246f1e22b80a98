"""The syntax tree: what was written, before names and types are resolved.

Every node is a frozen dataclass with a `span` that does not take part in equality, so that
`parse(format(x)) == parse(x)` compares programs and not layouts. From the leaves up: `node`,
`types`, `expressions`, `statements`, `items`; all of their names are here.
"""

from .expressions import Argument as Argument
from .expressions import Arm as Arm
from .expressions import Attribute as Attribute
from .expressions import Binary as Binary
from .expressions import BinaryOp as BinaryOp
from .expressions import Bool as Bool
from .expressions import Call as Call
from .expressions import Carried as Carried
from .expressions import Duration as Duration
from .expressions import Expr as Expr
from .expressions import For as For
from .expressions import If as If
from .expressions import Index as Index
from .expressions import ListLiteral as ListLiteral
from .expressions import Loop as Loop
from .expressions import Match as Match
from .expressions import Name as Name
from .expressions import Number as Number
from .expressions import Size as Size
from .expressions import Slice as Slice
from .expressions import String as String
from .expressions import Try as Try
from .expressions import Unary as Unary
from .expressions import Wildcard as Wildcard
from .items import BatchAxis as BatchAxis
from .items import Comment as Comment
from .items import Const as Const
from .items import Constraint as Constraint
from .items import Expect as Expect
from .items import External as External
from .items import Fn as Fn
from .items import Given as Given
from .items import Item as Item
from .items import Model as Model
from .items import Module as Module
from .items import Pads as Pads
from .items import Param as Param
from .items import Pipeline as Pipeline
from .items import Schedule as Schedule
from .items import Setting as Setting
from .items import Stub as Stub
from .items import Test as Test
from .items import TypeDef as TypeDef
from .items import UseFile as UseFile
from .items import UseModule as UseModule
from .node import Ident as Ident
from .node import Node as Node
from .statements import Assign as Assign
from .statements import Binding as Binding
from .statements import Block as Block
from .statements import Emit as Emit
from .statements import Next as Next
from .statements import Result as Result
from .statements import Return as Return
from .statements import State as State
from .statements import Statement as Statement
from .statements import StopWhen as StopWhen
from .statements import Yield as Yield
from .types import DimBinary as DimBinary
from .types import DimExpr as DimExpr
from .types import DimInt as DimInt
from .types import DimName as DimName
from .types import DimUnknown as DimUnknown
from .types import ListTypeExpr as ListTypeExpr
from .types import OptionalTypeExpr as OptionalTypeExpr
from .types import TensorTypeExpr as TensorTypeExpr
from .types import TypeExpr as TypeExpr
