// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/runtime/cuda.hpp>
#include <msstream/runtime/host.hpp>

#include <cstddef>
#include <cstdlib>
#include <string>

namespace benchmarks {

namespace ms = msstream;

/// A runtime's calls without msstream: the baseline of every comparison. Like the fastest possible
/// program, the calls do not check for errors; check() does, once per batch.
template <ms::Runtime R>
class Bare;

/// The direct calls of the host runtime. An empty kernel is an empty closure on the stream's worker
/// thread.
template <>
class Bare<ms::Host> {
 public:
  using native_stream = ms::Host::native_stream;
  using native_event = ms::Host::native_event;

  explicit Bare(ms::Host& runtime) : runtime_(&runtime) {}

  static void launch_empty(ms::HostStream stream) {
    stream.run([] {});
  }
  void record(native_event event, native_stream stream) const { runtime_->record(event, stream); }
  void wait(native_stream stream, native_event event) const { runtime_->wait(stream, event); }
  [[nodiscard]] bool query(native_event event) const { return runtime_->query(event); }
  [[nodiscard]] void* allocate(std::size_t bytes, native_stream) const {
    return std::malloc(bytes);
  }
  void free(void* memory, native_stream) const { std::free(memory); }
  void check() const {}

  [[nodiscard]] static std::string device_name();

 private:
  ms::Host* runtime_;
};

#if MSSTREAM_CUDA

/// The direct calls of CUDA: `<<<>>>`, cudaEventRecord, cudaStreamWaitEvent, cudaEventQuery,
/// cudaMallocAsync, cudaFreeAsync.
template <>
class Bare<ms::Cuda> {
 public:
  using native_stream = ms::Cuda::native_stream;
  using native_event = ms::Cuda::native_event;

  /// Lets the pool of cudaMallocAsync keep all memory that it has reserved, as a tuned program
  /// would.
  explicit Bare(ms::Cuda& runtime);

  static void launch_empty(ms::CudaStream stream);
  void record(native_event event, native_stream stream) const;
  void wait(native_stream stream, native_event event) const;
  [[nodiscard]] bool query(native_event event) const;
  [[nodiscard]] void* allocate(std::size_t bytes, native_stream stream) const;
  void free(void* memory, native_stream stream) const;
  /// Throws msstream::CudaError if a call of this thread has failed.
  void check() const;

  /// Returns the CUDA version that the program was built with, and the one that the driver
  /// supports.
  [[nodiscard]] static std::string version();
};

#endif

}  // namespace benchmarks
