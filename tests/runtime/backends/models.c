/* Functions that the tests of the native backend call, the good and the bad. */
#include <string.h>

#include "headrace.h"

HEADRACE_LIBRARY

static size_t count(const headrace_tensor *t)
{
    size_t n = 1;
    for (int32_t i = 0; i < t->type.rank; i++) n *= (size_t)t->shape[i];
    return n;
}

/* Copies any tensor of two axes, however it lies in memory. */
HEADRACE_FUNCTION(same)
{
    const headrace_tensor *x = &call->inputs[0];
    size_t size = x->type.bits / 8;
    if (!headrace_is(x->type, call->outputs[0].code, call->outputs[0].bits))
        return headrace_fail(call, "it gives what it gets, and the declared f32 is another");
    char *y = headrace_output(call, 0, x->type.rank, x->shape);
    if (y == NULL) return 1;
    if (x->type.rank == 0) {
        memcpy(y, x->data, size);
        return 0;
    }
    int64_t rows = x->type.rank == 2 ? x->shape[0] : 1;
    int64_t width = x->shape[x->type.rank - 1];
    int64_t across = x->type.rank == 2 ? x->strides[0] : 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < width; k++, y += size)
            memcpy(y, (const char *)x->data + r * across + k * x->strides[x->type.rank - 1], size);
    return 0;
}

HEADRACE_FUNCTION(pair)
{
    const headrace_tensor *a = &call->inputs[0], *b = &call->inputs[1];
    float *difference = headrace_output(call, 1, a->type.rank, a->shape);
    float *total = headrace_output(call, 0, a->type.rank, a->shape);
    if (difference == NULL || total == NULL) return 1;
    const float *p = a->data, *q = b->data; /* stacked rows lie in C order */
    for (size_t i = 0; i < count(a); i++) {
        total[i] = p[i] + q[i];
        difference[i] = p[i] - q[i];
    }
    return 0;
}

/* Does what its first value says, in all ways that are wrong. */
HEADRACE_FUNCTION(wrong)
{
    const headrace_tensor *x = &call->inputs[0];
    int64_t huge[1] = {INT64_C(1) << 60}, negative[1] = {-1}, three[1] = {3}, two[2] = {3, 3};
    switch (((const int64_t *)x->data)[0]) {
    case 0: return headrace_output(call, 0, 1, three) == NULL;
    case 1: return headrace_fail(call, "it would not");
    case 2: return 7;
    case 3: return 0;
    case 4: headrace_output(call, 9, 1, three); return 0;
    case 5: headrace_output(call, 0, 2, two); return 0;
    case 6: headrace_output(call, 0, 1, negative); return 0;
    case 7: headrace_output(call, 0, 1, huge); return 0;
    case 8: headrace_output(call, 0, 1, three); headrace_output(call, 0, 1, three); return 0;
    case 9: headrace_output(call, 0, 1, NULL); return 0;
    case 10: headrace_output(call, 0, -5, three); return 0;
    case 11: memset(call->message, 'x', call->message_size); return 1;
    default: memset(call->message, 0xff, 3); return 1;
    }
}
