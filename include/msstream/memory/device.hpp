// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/env.hpp>
#include <msstream/memory/allocator_options.hpp>
#include <msstream/memory/detail/any_device.hpp>
#include <msstream/memory/detail/device_declared.hpp>
#include <msstream/memory/statistics.hpp>
#include <msstream/order/position.hpp>
#include <msstream/runtime/default_runtime.hpp>
#include <msstream/runtime/detail/backend_of.hpp>
#include <msstream/stream/stream_group.hpp>
#include <msstream/stream/wait_counts.hpp>
#include <msstream/trace/timeline.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace msstream {

extern template class detail::BackendOf<Host>;
#if MSSTREAM_CUDA
extern template class detail::BackendOf<Cuda>;
#endif
namespace detail {

/// Makes the runtime of a device, and the backend that owns it. If the environment variable
/// MSSTREAM_CHECK is 1, a checking runtime takes the place of Host or Cuda. `R` is a Runtime; the
/// concept is not named because clang 18 and g++ 14 write it into the symbol and older compilers do
/// not, so that programs of the former could not link a library built by the latter.
template <class R>
[[nodiscard]] std::shared_ptr<Backend> make_backend_of_device(typename R::Options const& options) {
  return make_backend<R>(options);
}
template <>
std::shared_ptr<Backend> make_backend_of_device<Host>(Host::Options const& options);
#if MSSTREAM_CUDA
template <>
std::shared_ptr<Backend> make_backend_of_device<Cuda>(Cuda::Options const& options);
#endif

}  // namespace detail
#if MSSTREAM_CHECKED
extern template class detail::BackendOf<DefaultRuntime>;
#endif

template <Runtime R = DefaultRuntime>
struct DeviceOptions {
  typename R::Options runtime = {};  ///< of the runtime, such as the number of the GPU
  /// Whether to skip waits whose order is guaranteed without them. If false, a wait is issued for
  /// every hazard.
  bool reduce_waits = env::flag("MSSTREAM_REDUCE_WAITS", true);
  /// A function that is called, for debugging, with a sentence for every wait that is skipped
  /// because its order is already guaranteed.
  std::function<void(std::string const&)> explain_waits = {};
  AllocatorOptions memory = {};  ///< of the allocator
  /// The precision of float32 matrix products. tf32 is for training that tolerates factors with 10
  /// bits of mantissa.
  MatmulPrecision matmul_precision =
      env::choice("MSSTREAM_MATMUL_PRECISION",
                  MatmulPrecision::float32,
                  {{"float32", MatmulPrecision::float32}, {"tf32", MatmulPrecision::tf32}});
  /// The number of bytes of workspace that the matrix products of each stream group may use, for
  /// example for sums in parts. Another value may change the bits of results.
  std::size_t workspace_bytes = static_cast<std::size_t>(
      env::integer("MSSTREAM_WORKSPACE_BYTES", std::int64_t{4} << 20, 0, std::int64_t{1} << 32));
  /// Whether to measure the algorithms that cuBLASLt offers for a matrix product, when the first
  /// product of its shape is issued, and to take the fastest of those that give the same bits as
  /// the one that cuBLASLt recommends. The measurement of a shape takes about a hundred times as
  /// long as its product, and at least some milliseconds, and device memory for its operands as
  /// long as it lasts. The host runtime has nothing to measure.
  bool tune_products = env::flag("MSSTREAM_TUNE_PRODUCTS", false);
  /// The dependency tracker of another device of the same runtime type, to order work across the
  /// two devices. Null: the device makes its own.
  std::shared_ptr<detail::DependencyTracker> tracker = nullptr;
};

/// A handle to a GPU or to the host runtime, from which tensors, streams and pools are made. Copies
/// refer to the same device. Objects made from a device keep it alive, so they may be destroyed in
/// any order. Thread-safe.
///
/// `Device device;` uses CUDA if the build has it, otherwise the host; `Device<Host> device;`
/// chooses.
template <Runtime R>
class Device {
 public:
  using runtime_type = R;

  /// Makes a device, and its runtime from `options.runtime`. Throws std::invalid_argument for
  /// options out of range, and on CUDA CudaError without a GPU of that number.
  explicit Device(DeviceOptions<R> const& options = {})
      : engine_(detail::make_backend_of_device<R>(options.runtime),
                detail::EngineOptions{options.reduce_waits,
                                      options.explain_waits,
                                      options.memory,
                                      options.matmul_precision,
                                      options.workspace_bytes,
                                      options.tune_products,
                                      options.tracker}) {}
  /// Makes a handle to an existing device. For use by the library only. Throws
  /// std::invalid_argument if the device's runtime type is not R.
  explicit Device(std::shared_ptr<detail::DeviceState> state) : engine_(std::move(state)) {
    static_cast<void>(runtime());
  }

  /// Returns the runtime, which lives as long as the device.
  [[nodiscard]] R& runtime() const { return detail::runtime_of<R>(engine_.backend()); }
  /// Returns the dependency tracker, which other devices can share: see DeviceOptions::tracker.
  [[nodiscard]] std::shared_ptr<detail::DependencyTracker> const& tracker() const noexcept {
    return engine_.tracker();
  }
  /// Returns the group of operations that are issued outside all scopes.
  [[nodiscard]] StreamGroup<R> default_group() const {
    return StreamGroup<R>(engine_.default_group());
  }
  /// Returns the group of the calling thread's innermost scope, or the default group.
  [[nodiscard]] StreamGroup<R> current_group() const {
    return StreamGroup<R>(engine_.current_group());
  }

  /// Blocks the host until the operation at `position`, which issue() returned, is complete.
  /// Rethrows a failure of the operation, and throws errors that the device has reported, such as
  /// an id out of range with OutOfRange::trap, or a collective without one of its ranks.
  void synchronize(order::Position position) const { engine_.synchronize(position); }

  /// Returns the numbers of waits between streams since the device was made.
  [[nodiscard]] WaitCounts wait_counts() const { return engine_.wait_counts(); }
  /// Returns the number of operations that were issued since the device was made.
  [[nodiscard]] std::uint64_t operation_count() const { return engine_.operation_count(); }
  /// Returns all pieces of memory, for tools/msstream-memory.
  [[nodiscard]] MemorySnapshot memory_snapshot() const { return engine_.memory_snapshot(); }
  /// Returns the statistics of the device's memory.
  [[nodiscard]] MemoryStatistics memory_statistics() const { return engine_.memory_statistics(); }
  /// Returns the statistics of the device's pinned host memory.
  [[nodiscard]] MemoryStatistics pinned_memory_statistics() const {
    return engine_.pinned_memory_statistics();
  }
  /// Returns free device and pinned memory whose last uses are complete to the runtime. Blocks
  /// briefly. For programs that share the device with others: otherwise free memory stays reserved
  /// for reuse, within the limits of AllocatorOptions.
  void return_cached_memory() const { engine_.return_cached_memory(); }
  /// Returns the memory in use by name scope and stream, the largest first.
  [[nodiscard]] std::vector<ScopeMemory> memory_by_scope() const {
    return engine_.memory_by_scope();
  }
  /// Returns, for each stream, the memory in use, and how often the stream reused memory, took
  /// memory of other streams, and waited.
  [[nodiscard]] std::vector<StreamMemory> memory_by_stream() const {
    return engine_.memory_by_stream();
  }

  /// Starts to record when operations run on the device. Each operation then costs two timed
  /// events.
  void start_spans() const { engine_.start_spans(); }
  /// Returns the times of operations since start_spans(). Blocks the host until they are complete.
  [[nodiscard]] trace::Timeline stop_spans() const { return engine_.stop_spans(); }

  // Accessors for use by the library only.
  [[nodiscard]] detail::AnyDevice const& engine() const noexcept { return engine_; }
  [[nodiscard]] std::shared_ptr<detail::DeviceState> const& state() const noexcept {
    return engine_.state();
  }
  [[nodiscard]] std::shared_ptr<detail::StreamContext> const& context() const noexcept {
    return engine_.context();
  }

 private:
  detail::AnyDevice engine_;
};

Device()->Device<DefaultRuntime>;

}  // namespace msstream
