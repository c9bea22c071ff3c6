// SPDX-License-Identifier: Apache-2.0
// A program that calls MPI itself, and makes a world of its processes. Without mpirun it has one.
#include <msstream/comm/mpi.hpp>
#include <msstream/msstream.hpp>

#include <cstdio>

namespace ms = msstream;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  auto const world = ms::comm::world_of_mpi(MPI_COMM_WORLD);
  MPI_Finalize();
  std::puts(to_string(world).c_str());
  return world.size() == 1 ? 0 : 1;
}
