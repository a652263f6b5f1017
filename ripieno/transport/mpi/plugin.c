/* The plug-in for one MPI (plugin.h): compiled with that MPI's own compiler, as in
 *   mpicc -shared -fPIC -O2 -I SOURCE_FOLDER -o ripieno-mpi-openmpi.so ripieno/transport/mpi/plugin.c */
#include "ripieno/transport/mpi/plugin.h"

#include <mpi.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static MPI_Comm all = MPI_COMM_NULL;
static int is_ours = 0;
static MPI_Comm** lanes = NULL; /* each where it was made, since MPI fills it in later */
static int lanes_made = 0;

static int start(ripieno_mpi_place* place) {
  int is_started = 0, provided = 0, code = MPI_Initialized(&is_started);
  if (code == MPI_SUCCESS && !is_started) {
    code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    is_ours = code == MPI_SUCCESS;
  }
  if (code == MPI_SUCCESS) code = MPI_Comm_dup(MPI_COMM_WORLD, &all);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(all, MPI_ERRORS_RETURN);
  if (code == MPI_SUCCESS) code = MPI_Comm_rank(all, &place->rank);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(all, &place->size);
  MPI_Comm host = MPI_COMM_NULL;
  if (code == MPI_SUCCESS) code = MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  if (code == MPI_SUCCESS) code = MPI_Comm_size(host, &place->local_size);
  if (code == MPI_SUCCESS) code = MPI_Comm_free(&host);
  place->is_ours = is_ours;
  return code;
}

#ifdef MPICH_VERSION
static void* finalize(void* done) {
  MPI_Finalize();
  sem_post(done);
  return NULL;
}

/* MPICH 4.0 over UCX, between hosts, hangs here in one of three runs, of any program: one rank waits for another to take
 * part in its last messages, which waits for the first at PMI's barrier. After 3 s the process ends without. */
static int end_mpi(void) {
  static sem_t done;
  struct timespec until;
  pthread_t thread;
  sem_init(&done, 0, 0);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 3;
  if (pthread_create(&thread, NULL, finalize, &done)) return MPI_Finalize();
  if (sem_timedwait(&done, &until) == 0) return pthread_join(thread, NULL), MPI_SUCCESS;
  pthread_detach(thread);
  return MPI_SUCCESS;
}
#else
static int end_mpi(void) { return MPI_Finalize(); }
#endif

/* Of all ranks, for at most 5 s: one that has given up does not come. */
static int meet(void) {
  MPI_Request of = MPI_REQUEST_NULL;
  int done = 0, code = MPI_Ibarrier(all, &of);
  const double end = MPI_Wtime() + 5;
  while (code == MPI_SUCCESS && !done && MPI_Wtime() < end) {
    const struct timespec a_while = {0, 100000};
    code = MPI_Test(&of, &done, MPI_STATUS_IGNORE);
    if (!done) nanosleep(&a_while, NULL);
  }
  return code != MPI_SUCCESS || done ? code : MPI_ERR_OTHER;
}

static int stop(void) {
  int code = meet();
  for (int i = 0; i < lanes_made && code == MPI_SUCCESS; ++i) {
    if (*lanes[i] != MPI_COMM_NULL) code = MPI_Comm_free(lanes[i]);
    free(lanes[i]);
  }
  free(lanes);
  lanes = NULL;
  lanes_made = 0;
  if (code == MPI_SUCCESS) code = MPI_Comm_free(&all);
  if (code == MPI_SUCCESS && is_ours) code = end_mpi();
  return code;
}

static int has_ended(void) {
  int ended = 0;
  MPI_Finalized(&ended);
  return ended;
}

static int allows_threads(void) {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  return provided >= MPI_THREAD_SERIALIZED;
}

static void cut(char* text, size_t room, const char* whole, int length) {
  if (room == 0) return;
  size_t end = 0;
  while (end + 1 < room && end < (size_t)length && whole[end] && whole[end] != '\n') {
    text[end] = whole[end];
    ++end;
  }
  text[end] = 0;
}

static void library(char* text, size_t room) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(whole, &length);
  cut(text, room, whole, length);
}

static void explain(int code, char* text, size_t room) {
  char whole[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, whole, &length) != MPI_SUCCESS) length = snprintf(whole, sizeof whole, "error %d", code);
  cut(text, room, whole, length);
}

static MPI_Request get(const ripieno_mpi_request* request) {
  MPI_Request of;
  memcpy(&of, request, sizeof of);
  return of;
}

static int put(int code, MPI_Request of, ripieno_mpi_request* request) {
  memcpy(request, &of, sizeof of);
  return code;
}
_Static_assert(sizeof(MPI_Request) <= sizeof(ripieno_mpi_request), "a request does not fit");

static int send(int peer, int tag, const void* data, size_t bytes, ripieno_mpi_request* request) {
  MPI_Request of;
  const int code = MPI_Isend(data, (int)bytes, MPI_BYTE, peer, tag, all, &of);
  return put(code, of, request);
}

static int receive(int peer, int tag, void* into, size_t bytes, ripieno_mpi_request* request) {
  MPI_Request of;
  const int code = MPI_Irecv(into, (int)bytes, MPI_BYTE, peer, tag, all, &of);
  return put(code, of, request);
}

static int test(ripieno_mpi_request* request, int* done) {
  MPI_Request of = get(request);
  const int code = MPI_Test(&of, done, MPI_STATUS_IGNORE);
  return put(code, of, request);
}

static int take(int source, int tag, void* into, size_t room, int* taken, int* from, size_t* bytes) {
  MPI_Message message;
  MPI_Status status;
  int count = 0;
  int code = MPI_Improbe(source < 0 ? MPI_ANY_SOURCE : source, tag, all, taken, &message, &status);
  if (code != MPI_SUCCESS || !*taken) return code;
  *from = status.MPI_SOURCE;
  code = MPI_Mrecv(into, (int)room, MPI_BYTE, &message, &status);
  if (code == MPI_SUCCESS) code = MPI_Get_count(&status, MPI_BYTE, &count);
  *bytes = (size_t)count;
  return code;
}

static int open_lane(int lane, ripieno_mpi_request* request) {
  MPI_Request of = MPI_REQUEST_NULL;
  MPI_Comm** const more = realloc(lanes, (size_t)(lane + 1) * sizeof *lanes);
  if (!more) return MPI_ERR_NO_MEM;
  lanes = more;
  if (!(lanes[lane] = malloc(sizeof **lanes))) return MPI_ERR_NO_MEM;
  *lanes[lane] = MPI_COMM_NULL;
  lanes_made = lane + 1;
  const int code = MPI_Comm_idup(all, lanes[lane], &of);
  return put(code, of, request);
}

static MPI_Datatype type_of(int type) {
  switch (type) {
    case ripieno_mpi_fp32:
      return MPI_FLOAT;
    case ripieno_mpi_fp64:
      return MPI_DOUBLE;
    case ripieno_mpi_int32:
      return MPI_INT32_T;
    case ripieno_mpi_int64:
      return MPI_INT64_T;
    default:
      return MPI_UINT8_T;
  }
}

static MPI_Op op_of(int reduction) {
  switch (reduction) {
    case ripieno_mpi_product:
      return MPI_PROD;
    case ripieno_mpi_minimum:
      return MPI_MIN;
    case ripieno_mpi_maximum:
      return MPI_MAX;
    default:
      return MPI_SUM;
  }
}

static int run(const ripieno_mpi_collective* c, ripieno_mpi_request* request) {
  MPI_Request of = MPI_REQUEST_NULL;
  const MPI_Comm lane = *lanes[c->lane];
  const MPI_Datatype type = type_of(c->type);
  const MPI_Op op = op_of(c->reduction);
  int code = MPI_ERR_ARG, rank = 0, bytes = 0;
  MPI_Comm_rank(lane, &rank);
  MPI_Type_size(type, &bytes);
  const int is_root = rank == c->root, own = c->counts ? c->counts[rank] : 0;
  char* const chunk = c->counts ? (char*)c->numbers + (size_t)c->starts[rank] * (size_t)bytes : NULL;
  switch (c->kind) {
    case ripieno_mpi_all_reduce:
      code = MPI_Iallreduce(MPI_IN_PLACE, c->numbers, c->count, type, op, lane, &of);
      break;
    case ripieno_mpi_reduce_scatter:
      code = MPI_Ireduce_scatter(c->numbers, c->spare, c->counts, type, op, lane, &of);
      break;
    case ripieno_mpi_all_gather:
      code = MPI_Iallgatherv(MPI_IN_PLACE, 0, type, c->numbers, c->counts, c->starts, type, lane, &of);
      break;
    case ripieno_mpi_broadcast:
      code = MPI_Ibcast(c->numbers, c->count, type, c->root, lane, &of);
      break;
    case ripieno_mpi_reduce:
      code = MPI_Ireduce(is_root ? MPI_IN_PLACE : c->numbers, is_root ? c->numbers : NULL, c->count, type, op, c->root,
                         lane, &of);
      break;
    case ripieno_mpi_gather:
      code = MPI_Igatherv(is_root ? MPI_IN_PLACE : chunk, own, type, c->numbers, c->counts, c->starts, type, c->root,
                          lane, &of);
      break;
    case ripieno_mpi_scatter:
      code = MPI_Iscatterv(c->numbers, c->counts, c->starts, type, is_root ? MPI_IN_PLACE : chunk, own, type, c->root,
                           lane, &of);
      break;
    case ripieno_mpi_all_to_all:
      code = MPI_Ialltoall(c->numbers, c->count, type, c->spare, c->count, type, lane, &of);
      break;
  }
  return put(code, of, request);
}

static const ripieno_mpi_functions functions = {
    RIPIENO_MPI_VERSION,
#if defined(OPEN_MPI)
    "Open MPI",
#elif defined(MPICH_NAME) || defined(MPICH_VERSION)
    "MPICH",
#else
    "unknown",
#endif
    start, stop, has_ended, allows_threads, library, explain, send, receive, test, take,
    open_lane, run};

const ripieno_mpi_functions* ripieno_mpi(void) { return &functions; }
