/* The kernels of overlapbench for other programs: a C interface that any language can load.
 *
 * Pointers are to memory of the current CUDA device (from cudaMalloc, or managed), aligned to their
 * element. Nothing is copied or allocated. Work is enqueued on `stream`, a cudaStream_t of that
 * device (NULL: the default stream), and no call waits for it. `device` is the ordinal of the
 * device that holds the tensors; it must be the current device. Both are checked, which costs about
 * a microsecond a call; a caller that is sure of them passes OVERLAPBENCH_TRUSTED_DEVICE.
 *
 * Every call returns OVERLAPBENCH_OK, or another status without having launched anything; then
 * overlapbench_last_error() says what was wrong. */
#ifndef OVERLAPBENCH_KERNELS_H_
#define OVERLAPBENCH_KERNELS_H_

#include <stdint.h>

#if defined(__GNUC__)
#define OVERLAPBENCH_API __attribute__((visibility("default")))
#else
#define OVERLAPBENCH_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using,readability-identifier-naming): this is C, with C's names. */
typedef enum {
  OVERLAPBENCH_OK = 0,
  OVERLAPBENCH_NULL_POINTER = 1,
  OVERLAPBENCH_MISALIGNED = 2,   /* a pointer that is not a multiple of its element's size */
  OVERLAPBENCH_WRONG_DEVICE = 3, /* memory of the host or of another device */
  OVERLAPBENCH_UNKNOWN_TYPE = 4, /* no such type, form or work */
  OVERLAPBENCH_BAD_SIZE = 5,     /* zero, negative, too large, or not the required multiple */
  OVERLAPBENCH_CUDA_FAILED = 6,  /* a CUDA call or the launch failed */
  OVERLAPBENCH_OVERLAPPING = 7   /* an output that overlaps memory it must not overlap */
} overlapbench_status;

/* Parameters are int32_t so that a caller's wrong value can be refused. */
enum { OVERLAPBENCH_FLOAT32 = 0, OVERLAPBENCH_FLOAT16 = 1, OVERLAPBENCH_BFLOAT16 = 2 };
enum { OVERLAPBENCH_GELU_TANH = 0, OVERLAPBENCH_GELU_ERF = 1 };
enum { OVERLAPBENCH_TRUSTED_DEVICE = -1 };
enum { OVERLAPBENCH_WORK_TILE = 0, OVERLAPBENCH_WORK_FULL = 1 };

/* The message of this thread's last call that failed; "" before any. Valid until the next. */
OVERLAPBENCH_API const char* overlapbench_last_error(void);

/* output[i] = gelu(input[i]), i < count ≤ 2^31. `output` may be `input`, but not a part of it. */
OVERLAPBENCH_API int32_t overlapbench_gelu_forward(int32_t device, int32_t type, int32_t form,
                                                   const void* input, void* output, int64_t count,
                                                   void* stream);

/* grad_input[i] = grad_output[i]·gelu'(input[i]). `grad_input` may be either of the others, but
 * not a part of one. */
OVERLAPBENCH_API int32_t overlapbench_gelu_backward(int32_t device, int32_t type, int32_t form,
                                                    const void* input, const void* grad_output,
                                                    void* grad_input, int64_t count, void* stream);

/* The workspace of softmax_forward, for rows too long for one block: device memory, aligned to 16
 * bytes. It must be zero before the first call and left alone between calls. Calls that may run at
 * the same time must not share it: their results would be wrong or missing. Any number of them may
 * run at a time, but of those with rows above 6 MiB more than two may wait for milliseconds. */
enum { OVERLAPBENCH_SOFTMAX_WORKSPACE_BYTES = 2097152 };

/* Sets *bytes to the workspace size that rows of this length need: the constant above, or 0. */
OVERLAPBENCH_API int32_t overlapbench_softmax_workspace(int32_t type, int64_t columns,
                                                        int64_t* bytes);

/* Softmax over each row of a row-major matrix of rows×columns elements: rows and columns below
 * 2^31, together at most 2^40 elements. `output` must not overlap `input`. `workspace` may be NULL
 * for rows that need none. A row that holds a NaN or +infinity, or nothing but -infinity, becomes
 * NaN. */
OVERLAPBENCH_API int32_t overlapbench_softmax_forward(int32_t device, int32_t type,
                                                      const void* input, void* output, int64_t rows,
                                                      int64_t columns, void* workspace,
                                                      void* stream);

/* C = A·B on n×n row-major float32 matrices with a grid of grid_x×grid_y blocks of 16×16 threads;
 * n is a multiple of 16, at most 65,536. WORK_FULL computes all of C, whatever the grid; WORK_TILE
 * its first 16·grid_y rows and 16·grid_x columns, and grid_x, grid_y ≤ n/16. C must not overlap A
 * or B. */
OVERLAPBENCH_API int32_t overlapbench_grid_gemm(int32_t device, const float* a, const float* b,
                                                float* c, int64_t n, int32_t grid_x, int32_t grid_y,
                                                int32_t work, void* stream);

/* Sets *capturing to 1 if what is enqueued on `stream` now becomes a part of a CUDA graph, else 0.
 */
OVERLAPBENCH_API int32_t overlapbench_stream_is_capturing(void* stream, int32_t* capturing);

/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif /* OVERLAPBENCH_KERNELS_H_ */
