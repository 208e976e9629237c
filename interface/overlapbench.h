/* overlapbench's measuring as a C interface, for programs that measure their own work.
 *
 * A row is made of callbacks: a computation beside a communication, a schedule of steps, or one
 * work alone. They are measured like the suite's own workloads (docs/method.md): each runs once
 * ungated and is verified; then all runs are sampled in turn, cold, behind the start gate.
 * overlapbench_measure_own measures one of the suite's own rows. Results are the JSON that ./bench
 * writes.
 *
 *   overlapbench_suite* suite = NULL;
 *   if (overlapbench_open(0, NULL, &suite) != 0) puts(overlapbench_measuring_error());
 *   const overlapbench_work works[] = {{"comp", OVERLAPBENCH_COMP, 0, {multiply, NULL, NULL},
 * data},
 *                                      {"comm", OVERLAPBENCH_COMM, 0, {reduce, NULL, NULL}, data}};
 *   const overlapbench_row row = {.kind = OVERLAPBENCH_PAIR, .name = "mine",
 *                                 .works = works, .work_count = 2};
 *   if (overlapbench_measure(suite, &row) == 0) puts(overlapbench_result(suite));
 *   overlapbench_close(suite);
 *
 * Ranks. All processes of the job (mpirun, srun) make every call together, with the same arguments
 * but for their callbacks. Without a launcher the process is rank 0 of 1.
 *
 * Threads. Make all calls from one thread, and none from a callback. On the cuda backend callbacks
 * run in that thread and enqueue on the given stream, a cudaStream_t. On the host backend `enqueue`
 * runs as the stream's work, on the lane's own thread, and the stream is NULL.
 *
 * Errors. Functions return 0, or a status that overlapbench_measuring_error() describes in one
 * line. A failure within a row is not such an error: it sets the row's `state` and `error_message`,
 * and the suite remains usable. Such failures are a callback that fails, a wrong result, a wait
 * that times out, and an `enqueue` that waits for the device behind the closed gate, which opens
 * after two seconds. The exception is a timeout with several ranks: a rank may still wait, so every
 * later call fails.
 */
#ifndef OVERLAPBENCH_INTERFACE_OVERLAPBENCH_H_
#define OVERLAPBENCH_INTERFACE_OVERLAPBENCH_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* NOLINTBEGIN(modernize-use-using,readability-identifier-naming): this is C, with C's names. */
typedef enum {
  OVERLAPBENCH_MEASURING_OK = 0,
  /* Wrong arguments, the same on all ranks; nothing was measured. */
  OVERLAPBENCH_MEASURING_REFUSED = 1,
  /* The suite could not be opened, or cannot go on. */
  OVERLAPBENCH_MEASURING_FAILED = 2
} overlapbench_measuring_status;

typedef enum {
  OVERLAPBENCH_COMP = 0,
  OVERLAPBENCH_COMM = 1,
  OVERLAPBENCH_MEM = 2
} overlapbench_class;

/* A callback's report. It is zeroed before the call. */
typedef struct {
  double max_rel_err; /* verify: the largest relative error */
  double tolerance;   /* verify: the largest error allowed; more, or a NaN, is a wrong result */
  char text[512];     /* why a callback failed; verify: what is wrong; one line, or "" */
} overlapbench_answer;

/* Returns 0, or another number if it failed. */
typedef int32_t (*overlapbench_callback)(void* context, void* stream, overlapbench_answer* answer);

typedef struct {
  overlapbench_callback enqueue; /* enqueues the work; may be called any number of times */
  overlapbench_callback reset;   /* before a verified run: fills inputs, poisons outputs; or NULL */
  overlapbench_callback verify;  /* checks the result of one enqueue after a reset; or NULL */
} overlapbench_callbacks;

typedef struct {
  const char* name;   /* unique in its row; in messages, and "comp", "comm" in a pair */
  int32_t work_class; /* overlapbench_class */
  int32_t waits;      /* nonzero: `enqueue` may wait for the device, so no gate is closed */
  overlapbench_callbacks callbacks;
  void* context; /* passed to the callbacks */
} overlapbench_work;

/* One step of a schedule. Steps are enqueued in order; naming a lane creates it. */
typedef struct {
  const char* lane;
  const char* name;
  int64_t work;         /* its index in `works`; steps may share one */
  const int64_t* after; /* indices of earlier steps that must end before this one starts */
  int64_t after_count;
} overlapbench_step;

typedef enum {
  OVERLAPBENCH_ALONE = 0,   /* one work: the row Compute/NAME or Comm/NAME */
  OVERLAPBENCH_PAIR = 1,    /* computation and communication: Overlap/NAMEComm+NAMEComp */
  OVERLAPBENCH_SCHEDULE = 2 /* steps, compared with their sequence and bound: Schedule/NAME */
} overlapbench_kind;

typedef struct {
  int32_t kind;     /* overlapbench_kind */
  const char* name; /* letters and digits, the first a letter */
  const overlapbench_work* works;
  int64_t work_count;
  const overlapbench_step* steps; /* of a schedule */
  int64_t step_count;
  const char* const* labels; /* "n=4096": become part of the row's name */
  int64_t label_count;
  const char* const* axes; /* "cache=warm": of the suite's own axes, one value each */
  int64_t axis_count;
  /* A callback that enqueues nothing, called in the same way as the works'. If a work takes no
   * longer than it, alone or after its work elsewhere has ended, the work has left its stream empty
   * and the row is invalid. NULL: no check. */
  overlapbench_callback nothing;
  void* nothing_context;
} overlapbench_row;

typedef struct {
  int32_t rank;
  int32_t ranks;
  int32_t local_rank; /* among the ranks of this machine */
  int32_t device;     /* CUDA's number of the GPU; -1 on the host backend */
} overlapbench_place;

typedef struct overlapbench_suite overlapbench_suite;

/* Starts MPI unless the process has, opens the device, and measures known delays (--no-self-test
 * skips that). `flags` are those of ./bench: --backend, --timeout_s, --budget_ms, --precision,
 * --gate, --host_cores. Once per process. */
int32_t overlapbench_open(int64_t count, const char* const* flags, overlapbench_suite** suite);
/* The next rows are measured with the flags of overlapbench_open and these: --budget_ms,
 * --warmup_ms, --precision and --timeout_s. Refuses other flags. A row is an error if these differ
 * between ranks. Communicators of the suite's own rows keep the timeout with which they were made.
 */
int32_t overlapbench_configure(overlapbench_suite* suite, int64_t count, const char* const* flags);
/* On the measuring thread, a callback must return within nine tenths of --timeout_s. After that,
 * the row is an error, and the thread receives `signal`, whose handler may end the callback; 0, the
 * default, sends none. If a callback has not returned 5 s after --timeout_s, the process ends, with
 * one line and status 1. */
int32_t overlapbench_interrupt_with(overlapbench_suite* suite, int32_t signal);
int32_t overlapbench_where(overlapbench_suite* suite, overlapbench_place* place);
/* Copies rank 0's bytes to every rank, at most 2147483647. */
int32_t overlapbench_broadcast(overlapbench_suite* suite, void* data, int64_t bytes);
int32_t overlapbench_measure(overlapbench_suite* suite, const overlapbench_row* row);
/* One of the suite's own rows, by the name that ./bench lists, such as "Comm/AllReduce/bytes:64M".
 * Its axes may have other values, and may be left out if only one row then matches. */
int32_t overlapbench_measure_own(overlapbench_suite* suite, const char* name);
/* The last row as a whole JSON document: the context, the tables, and one benchmark. The same on
 * all ranks except for what only one rank can know. Valid until the next measurement. */
const char* overlapbench_result(overlapbench_suite* suite);
/* Every sample of the last row, in the lines of --samples_out, without their header: name, group,
 * run, milliseconds, skew. "" if nothing was measured. Valid until the next measurement. */
const char* overlapbench_samples(overlapbench_suite* suite);
/* Why this thread's last call failed. */
const char* overlapbench_measuring_error(void);
/* Ends MPI if overlapbench_open has started it. Leaves everything as it is if a rank may hang. */
void overlapbench_close(overlapbench_suite* suite);

/* NOLINTEND(modernize-use-using,readability-identifier-naming) */

#ifdef __cplusplus
}
#endif

#endif
