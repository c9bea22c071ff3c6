// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>
#include <msstream/comm/world.hpp>

#include <mpi.h>

#include <chrono>

namespace msstream::comm {

/// Returns the world of the processes of an MPI communicator, for programs that call MPI
/// themselves. A program that uses it links msstream::mpi, and needs no MASTER_ADDR.
///
/// MPI carries only the address at which rank 0 serves the others: all that follows goes over
/// connections of the library's own, and the library calls MPI no more. So the communicator may be
/// freed and MPI finalised while the world is in use. A collective call: it blocks until all
/// processes of the communicator have called it. The local rank is the number of lower ranks with
/// the same MPI_Get_processor_name().
///
/// The program initialises MPI before, with any thread level: below MPI_THREAD_SERIALIZED, the
/// calling thread must be the one that has initialised it. Throws std::logic_error if MPI is not
/// initialised, or is finalised, or if the thread is another; std::invalid_argument if the
/// communicator is MPI_COMM_NULL or an intercommunicator; std::runtime_error with the name of the
/// call if MPI reports an error, if a process has not called this within the timeout, or if the
/// process cannot reach rank 0, with the addresses that it has tried.
///
/// World::from_environment() does the same in a program that links msstream::mpi, for all processes
/// that mpirun or srun has started. If MPI is not initialised then, it initialises MPI by
/// MPI_Init_thread() with MPI_THREAD_FUNNELED, and finalises it before it returns.
[[nodiscard]] World world_of_mpi(MPI_Comm communicator,
                                 std::chrono::nanoseconds timeout = std::chrono::seconds(
                                     env::integer("MSSTREAM_COMM_TIMEOUT_S", 30, 1, 1'000'000)));

}  // namespace msstream::comm
