/* What Ripieno needs of an MPI, as a table of C functions. plugin.c fills it with one MPI's own, whose types and
 * constants differ from those of others: a plug-in is compiled for each (Open MPI, MPICH), and loaded when asked for,
 * so that the program itself links no MPI.
 *
 * Functions that can fail return an MPI error code, 0 for success. Used by one thread at a time
 * (MPI_THREAD_SERIALIZED). */
#ifndef RIPIENO_TRANSPORT_MPI_PLUGIN_H
#define RIPIENO_TRANSPORT_MPI_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An operation under way; zero when there is none. Holds an MPI_Request of any MPI. */
typedef struct {
  uint64_t room;
} ripieno_mpi_request;

/* The place of a process. */
typedef struct {
  int rank, size;
  int local_size; /* processes on this host */
  int is_ours;    /* 1: start() has started MPI, so that stop() ends it; 0: the host program had */
} ripieno_mpi_place;

/* Every plug-in of another version is refused. */
#define RIPIENO_MPI_VERSION 2

enum ripieno_mpi_kind {
  ripieno_mpi_all_reduce,
  ripieno_mpi_reduce_scatter,
  ripieno_mpi_all_gather,
  ripieno_mpi_broadcast,
  ripieno_mpi_reduce,
  ripieno_mpi_gather,
  ripieno_mpi_scatter,
  ripieno_mpi_all_to_all
};
enum ripieno_mpi_type { ripieno_mpi_fp32, ripieno_mpi_fp64, ripieno_mpi_int32, ripieno_mpi_int64, ripieno_mpi_uint8 };
enum ripieno_mpi_reduction { ripieno_mpi_sum, ripieno_mpi_product, ripieno_mpi_minimum, ripieno_mpi_maximum };

/* One of MPI's own collectives. It works in place on the numbers, except for those with a `spare`. */
typedef struct {
  int kind, type, reduction, root; /* reduction and root where the kind has one */
  int lane;                        /* see open_lane() */
  int count; /* of all numbers; of an all-to-all: of each block, of which block i goes to rank i */
  void* numbers;
  void* spare; /* gets the own chunk of a reduce-scatter, and all blocks of an all-to-all */
  /* Chunk i, of rank i: counts[i] numbers from starts[i] on. For kinds with chunks; both live until it is done. */
  const int *counts, *starts;
} ripieno_mpi_collective;

typedef struct {
  uint32_t version;
  const char* kind; /* "Open MPI" or "MPICH", for which it was compiled */

  /* Starts MPI unless that is done, and makes a communicator of all processes. */
  int (*start)(ripieno_mpi_place* place);
  /* Ends MPI if start() has started it. A process cannot start it again. */
  int (*stop)(void);
  /* Whether MPI was started and ended in this process. */
  int (*has_ended)(void);
  /* Whether threads may use MPI one at a time. */
  int (*allows_threads)(void);
  /* The version of the library that is loaded: its first line, cut to `room` bytes. */
  void (*library)(char* text, size_t room);
  /* What an error code means, cut to `room` bytes. */
  void (*explain)(int code, char* text, size_t room);

  /* The buffers must live until test() says that the operation is done. At most 2^31 - 1 bytes. */
  int (*send)(int peer, int tag, const void* data, size_t bytes, ripieno_mpi_request* request);
  int (*receive)(int peer, int tag, void* into, size_t bytes, ripieno_mpi_request* request);
  int (*test)(ripieno_mpi_request* request, int* done);
  /* Receives a message of at most `room` bytes with this tag, of this rank or of any (-1), if one has come. */
  int (*take)(int source, int tag, void* into, size_t room, int* taken, int* from, size_t* bytes);

  /* Begins to open a lane: all ranks open 0, 1, .. one after the other. MPI matches the collectives of a lane by their
   * order, and those of different lanes not at all. */
  int (*open_lane)(int lane, ripieno_mpi_request* request);
  /* Begins a collective of an open lane. */
  int (*run)(const ripieno_mpi_collective* collective, ripieno_mpi_request* request);
} ripieno_mpi_functions;

/* What a plug-in exports. */
const ripieno_mpi_functions* ripieno_mpi(void);

#ifdef __cplusplus
}
#endif

#endif
