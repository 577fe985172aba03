/* Stands in for all_reduce_perf: the ranks meet by Open MPI, and the first of them prints a table.
 * The prototypes are those of Open MPI, so that no header is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern char ompi_mpi_comm_world[];
int MPI_Init(int *, char ***);
int MPI_Comm_rank(void *, int *);
int MPI_Comm_size(void *, int *);
int MPI_Barrier(void *);
int MPI_Finalize(void);

int main(int count, char **words)
{
    int rank, size, place;
    char host[256];
    const char *hca = getenv("NCCL_IB_HCA");

    MPI_Init(&count, &words);
    MPI_Comm_rank(ompi_mpi_comm_world, &rank);
    MPI_Comm_size(ompi_mpi_comm_world, &size);
    gethostname(host, sizeof host);
    if (rank == 0) {
        printf("# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20\n");
        printf("# Using devices\n");
        for (place = 0; place < size; place++)
            printf("#  Rank %2d Group  0 Pid %6d on %10s device %2d [0x%02x] NVIDIA H100\n", place, getpid() + place,
                   host, place, place + 1);
        printf("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw"
               "   busbw #wrong\n");
        printf("     1048576        262144     float     sum      -1    91.00   11.52   20.16      0    91.00   11.52"
               "   20.16      0\n");
        printf("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 20.16\n");
        printf("words:");
        for (place = 1; place < count; place++)
            printf(" [%s]", words[place]);
        printf("\nNCCL_IB_HCA: %s\n", hca ? hca : "");
    }
    MPI_Barrier(ompi_mpi_comm_world);
    MPI_Finalize();
    return 0;
}
