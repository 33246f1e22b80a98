/* headrace.h - how a function in a shared library serves a stage. C99, no other header of headrace.
 *
 *     #include "headrace.h"
 *     HEADRACE_LIBRARY
 *
 *     HEADRACE_FUNCTION(twice)
 *     {
 *         const headrace_tensor *x = &call->inputs[0];
 *         if (!headrace_is(x->type, HEADRACE_FLOAT, 32)) return headrace_fail(call, "x is f32");
 *         float *y = headrace_output(call, 0, x->type.rank, x->shape);
 *         if (y == NULL) return 1;
 *         ...
 *         return 0;
 *     }
 *
 *     fn twice(x: f32[N]) -> (y: f32[N]) = native "libtwice.so:twice"       one item a call
 *     model twice = native "libtwice.so:twice" (x: f32[N]) -> (y: f32[N])   axis 0 is the batch
 *
 * A function is called from several threads at once, but for `instances = 1` in the schedule. All that
 * `call` points to lives until the function returns, is only read by it, and is never freed by it.
 */
#ifndef HEADRACE_H
#define HEADRACE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define HEADRACE_ABI 1

/* Codes of dtypes, those of DLPack: bool has 8 bits, f32 is {HEADRACE_FLOAT, 32}. */
enum {
    HEADRACE_INT = 0,
    HEADRACE_UINT = 1,
    HEADRACE_FLOAT = 2,
    HEADRACE_BFLOAT = 4,
    HEADRACE_BOOL = 6
};

typedef struct {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;         /* 1 */
    int32_t rank;           /* as declared, the batch axis included */
} headrace_type;

typedef struct {
    const void *data;       /* aligned to its elements; never NULL */
    const int64_t *shape;   /* `rank` sizes, each 0 or more; never NULL */
    const int64_t *strides; /* `rank` distances in bytes: of what lies in C order those that follow */
    headrace_type type;
} headrace_tensor;

typedef struct headrace_call headrace_call;

struct headrace_call {
    uint32_t abi;           /* HEADRACE_ABI of the caller */
    uint32_t input_count;
    uint32_t output_count;
    uint32_t message_size;
    const headrace_tensor *inputs; /* as declared: dtypes and ranks are checked, sizes too */
    const headrace_type *outputs;  /* what is declared of them: compare it with what you give */
    char *message;                 /* room for `message_size` bytes of UTF-8: why it has failed */
    void *owner;
    void *(*output)(headrace_call *call, uint32_t index, int32_t rank, const int64_t *shape);
};

/* Whether something is of a dtype: it is what the .pipe file says, which may be wrong. */
static inline int headrace_is(headrace_type type, int code, int bits)
{
    return type.code == code && type.bits == bits && type.lanes == 1;
}

/* Give output `index` its shape, once, and return its memory, in C order, to be filled: its dtype is the
 * declared one. NULL where the index, rank or a size is not what is declared, or memory is short: the
 * function then returns what is not 0, and the caller knows why. Shapes without elements give memory too. */
static inline void *headrace_output(headrace_call *call, uint32_t index, int32_t rank,
                                    const int64_t *shape)
{
    return call->output(call, index, rank, shape);
}

/* Say why it fails, and return 1 for the function to return. */
static inline int headrace_fail(headrace_call *call, const char *why)
{
    snprintf(call->message, call->message_size, "%s", why);
    return 1;
}

#if defined(__cplusplus)
#define HEADRACE_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define HEADRACE_EXPORT __attribute__((visibility("default")))
#endif

/* Once in each library: says for which form of this header it was compiled. */
#define HEADRACE_LIBRARY \
    HEADRACE_EXPORT uint32_t headrace_abi(void) { return HEADRACE_ABI; }

/* A function that serves a stage: 0 for success, anything else fails the rows it was given. */
#define HEADRACE_FUNCTION(name) HEADRACE_EXPORT int name(headrace_call *call)

#endif
