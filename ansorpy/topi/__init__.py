"""Tensor operators: they take tensors and return a tensor, so that they compose.

    from ansorpy import te, topi

    x, w = te.placeholder((1, 16, 28, 28), "X"), te.placeholder((32, 16, 3, 3), "W")
    b = te.placeholder((32, 1, 1), "b")
    dag = te.dag(topi.relu(topi.conv2d(x, w, stride=2, padding=1) + b))

A line below is the registration of an operator. Dags by sizes alone are in
`ansorpy.topi.workloads`, two suites of them in `ansorpy.topi.suites`. Source of the names and of
the style: TVM's topi and NumPy.
"""

from ansorpy.topi.activation import elu as elu
from ansorpy.topi.activation import gelu as gelu
from ansorpy.topi.activation import hard_sigmoid as hard_sigmoid
from ansorpy.topi.activation import hard_swish as hard_swish
from ansorpy.topi.activation import leaky_relu as leaky_relu
from ansorpy.topi.activation import mish as mish
from ansorpy.topi.activation import prelu as prelu
from ansorpy.topi.activation import relu as relu
from ansorpy.topi.activation import relu6 as relu6
from ansorpy.topi.activation import selu as selu
from ansorpy.topi.activation import sigmoid as sigmoid
from ansorpy.topi.activation import silu as silu
from ansorpy.topi.activation import softplus as softplus
from ansorpy.topi.activation import softsign as softsign
from ansorpy.topi.conv import capsule_conv2d as capsule_conv2d
from ansorpy.topi.conv import conv1d as conv1d
from ansorpy.topi.conv import conv2d as conv2d
from ansorpy.topi.conv import conv2d_nhwc as conv2d_nhwc
from ansorpy.topi.conv import conv3d as conv3d
from ansorpy.topi.conv import depthwise_conv2d as depthwise_conv2d
from ansorpy.topi.conv_transpose import conv1d_transpose as conv1d_transpose
from ansorpy.topi.conv_transpose import conv2d_transpose as conv2d_transpose
from ansorpy.topi.elementwise import abs as abs
from ansorpy.topi.elementwise import add as add
from ansorpy.topi.elementwise import bias_add as bias_add
from ansorpy.topi.elementwise import cast as cast
from ansorpy.topi.elementwise import ceil as ceil
from ansorpy.topi.elementwise import clip as clip
from ansorpy.topi.elementwise import divide as divide
from ansorpy.topi.elementwise import equal as equal
from ansorpy.topi.elementwise import erf as erf
from ansorpy.topi.elementwise import exp as exp
from ansorpy.topi.elementwise import floor as floor
from ansorpy.topi.elementwise import floor_divide as floor_divide
from ansorpy.topi.elementwise import greater as greater
from ansorpy.topi.elementwise import greater_equal as greater_equal
from ansorpy.topi.elementwise import isnan as isnan
from ansorpy.topi.elementwise import less as less
from ansorpy.topi.elementwise import less_equal as less_equal
from ansorpy.topi.elementwise import log as log
from ansorpy.topi.elementwise import logical_and as logical_and
from ansorpy.topi.elementwise import logical_not as logical_not
from ansorpy.topi.elementwise import logical_or as logical_or
from ansorpy.topi.elementwise import logical_xor as logical_xor
from ansorpy.topi.elementwise import maximum as maximum
from ansorpy.topi.elementwise import minimum as minimum
from ansorpy.topi.elementwise import mod as mod
from ansorpy.topi.elementwise import multiply as multiply
from ansorpy.topi.elementwise import negative as negative
from ansorpy.topi.elementwise import not_equal as not_equal
from ansorpy.topi.elementwise import power as power
from ansorpy.topi.elementwise import reciprocal as reciprocal
from ansorpy.topi.elementwise import rsqrt as rsqrt
from ansorpy.topi.elementwise import sign as sign
from ansorpy.topi.elementwise import sqrt as sqrt
from ansorpy.topi.elementwise import square as square
from ansorpy.topi.elementwise import subtract as subtract
from ansorpy.topi.elementwise import tanh as tanh
from ansorpy.topi.elementwise import where as where
from ansorpy.topi.layout import broadcast_to as broadcast_to
from ansorpy.topi.layout import depth_to_space as depth_to_space
from ansorpy.topi.layout import expand_dims as expand_dims
from ansorpy.topi.layout import flatten as flatten
from ansorpy.topi.layout import reshape as reshape
from ansorpy.topi.layout import space_to_depth as space_to_depth
from ansorpy.topi.layout import squeeze as squeeze
from ansorpy.topi.layout import transpose as transpose
from ansorpy.topi.linear import dense as dense
from ansorpy.topi.linear import matmul as matmul
from ansorpy.topi.masks import one_hot as one_hot
from ansorpy.topi.masks import tril as tril
from ansorpy.topi.masks import triu as triu
from ansorpy.topi.normalization import batch_norm as batch_norm
from ansorpy.topi.normalization import group_norm as group_norm
from ansorpy.topi.normalization import instance_norm as instance_norm
from ansorpy.topi.normalization import layer_norm as layer_norm
from ansorpy.topi.normalization import log_softmax as log_softmax
from ansorpy.topi.normalization import rms_norm as rms_norm
from ansorpy.topi.normalization import softmax as softmax
from ansorpy.topi.pool import avg_pool as avg_pool
from ansorpy.topi.pool import global_avg_pool as global_avg_pool
from ansorpy.topi.pool import global_max_pool as global_max_pool
from ansorpy.topi.pool import max_pool as max_pool
from ansorpy.topi.reduction import argmax as argmax
from ansorpy.topi.reduction import argmin as argmin
from ansorpy.topi.reduction import logsumexp as logsumexp
from ansorpy.topi.reduction import max as max
from ansorpy.topi.reduction import mean as mean
from ansorpy.topi.reduction import min as min
from ansorpy.topi.reduction import norm as norm
from ansorpy.topi.reduction import prod as prod
from ansorpy.topi.reduction import sum as sum
from ansorpy.topi.resize import resize_linear as resize_linear
from ansorpy.topi.resize import resize_nearest as resize_nearest
from ansorpy.topi.slicing import concat as concat
from ansorpy.topi.slicing import flip as flip
from ansorpy.topi.slicing import pad as pad
from ansorpy.topi.slicing import repeat as repeat
from ansorpy.topi.slicing import split as split
from ansorpy.topi.slicing import stack as stack
from ansorpy.topi.slicing import strided_slice as strided_slice
from ansorpy.topi.slicing import tile as tile
