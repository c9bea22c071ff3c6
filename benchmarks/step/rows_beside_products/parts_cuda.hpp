// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/cuda.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace benchmarks {

/// The CUDA runtime with two additions for measurements.
///
/// - The multiprocessors are divided into two parts of unequal size, in several ways. Of a pool
///   with `sm_partitions` = 2 · divisions, group 2 · d has the first part of division number d,
///   and group 2 · d + 1 all other multiprocessors.
/// - Each kernel of a graph keeps the priority of the stream on which it was captured. Otherwise
///   all kernels of a graph have the priority of the stream that launches it.
class CudaInParts : public msstream::Cuda {
 public:
  struct Options {
    std::vector<int> first_parts = {};  ///< multiprocessors of the first part in each division
  };
  static constexpr std::string_view name = "cuda_in_parts";

  /// Uses GPU 0. Throws CudaError if there is none, if its driver lacks green contexts though
  /// divisions are asked for, and for a division that the device does not have.
  explicit CudaInParts(Options const& options);
  ~CudaInParts();

  native_stream create_stream(msstream::StreamPriority priority);
  native_stream create_stream(msstream::StreamPriority priority, msstream::SmPartition partition);
  [[nodiscard]] int most_sm_parts() const noexcept;
  native_graph end_capture(native_stream stream);

  /// Returns the name of the GPU, its number of multiprocessors, and the version of the driver.
  [[nodiscard]] std::string description() const;
  /// Returns the number of all multiprocessors.
  [[nodiscard]] int multiprocessors() const noexcept;
  /// Returns the number of multiprocessors of part number `index`, counted as groups are. The
  /// device rounds the sizes of first parts up to multiples of its own.
  [[nodiscard]] int multiprocessors_of(int index) const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace benchmarks

namespace msstream {

template <>
inline constexpr RuntimeLife life_of<benchmarks::CudaInParts> = RuntimeLife::driver;

}  // namespace msstream
