// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace benchmarks {

/// NCCL without msstream: a communicator and a stream of one rank, whose calls are checked.
class BareNccl {
 public:
  /// Returns an id for a communicator, which all its ranks need.
  [[nodiscard]] static std::string unique_id();
  /// Returns the version of NCCL, such as "2.28.3".
  [[nodiscard]] static std::string version();

  /// Makes the GPU with the number `rank` the calling thread's current one. Blocks until all ranks
  /// have come.
  BareNccl(std::string const& id, int rank, int ranks);
  ~BareNccl();
  BareNccl(BareNccl const&) = delete;
  BareNccl& operator=(BareNccl const&) = delete;

  /// `count` is the number of elements that the rank gives.
  void all_gather(float const* input, float* output, std::size_t count);
  void all_to_all(float const* input, float* output, std::size_t count);
  void synchronize();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace benchmarks
