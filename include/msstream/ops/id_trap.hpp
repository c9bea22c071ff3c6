// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/memory/device.hpp>
#include <msstream/ops/kernels/id_policy.hpp>
#include <msstream/tensor/tensor.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::ops::detail {

/// One device's report of bad ids in lookups with OutOfRange::trap, checked whenever the host waits
/// for the device.
template <Runtime R>
class IdTraps {
 public:
  explicit IdTraps(DeviceState<R>& device)
      : runtime_(device.context->runtime),
        trap_(new (runtime_->allocate_pinned(sizeof(kernels::IdTrap))) kernels::IdTrap{},
              {runtime_.get()}) {
    device.add_check([this] { check(); });
  }

  [[nodiscard]] kernels::IdTrap* trap() const noexcept { return trap_.get(); }
  /// The number by which the kernel names the operation.
  [[nodiscard]] std::uint32_t operation(std::string name) {
    std::lock_guard const guard(mutex_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) {
        return static_cast<std::uint32_t>(i);
      }
    }
    names_.push_back(std::move(name));
    return static_cast<std::uint32_t>(names_.size() - 1);
  }

 private:
  struct FreePinned {
    R* runtime;
    void operator()(kernels::IdTrap* trap) const noexcept {
      runtime->free_pinned(trap, sizeof(kernels::IdTrap));
    }
  };

  /// Throws once for each bad id caught, and is then ready to catch the next.
  void check() {
    std::atomic_ref<std::uint32_t> set(trap_->set);
    if (set.load(std::memory_order_acquire) != 1) {
      return;
    }
    std::lock_guard const guard(mutex_);
    auto const message =
        text(names_.at(trap_->operation), ": id ", trap_->id, " outside [0, ", trap_->rows, ")");
    set.store(0, std::memory_order_release);
    throw std::out_of_range(message);
  }

  std::shared_ptr<R> runtime_;
  std::unique_ptr<kernels::IdTrap, FreePinned> trap_;
  std::mutex mutex_;
  std::vector<std::string> names_;
};

/// Where `operation` reports bad ids; a count is added to what it writes. Throws
/// std::invalid_argument unless there is a scalar to count in, if and only if they are counted.
template <Runtime R, class Written>
kernels::IdReport id_report(char const* operation,
                            DeviceState<R>& device,
                            OutOfRange policy,
                            std::optional<Tensor<std::int64_t, R>> const& bad_id_count,
                            Written& written) {
  require(bad_id_count.has_value() == (policy == OutOfRange::count),
          operation,
          ": bad_id_count goes with OutOfRange::count");
  require(!bad_id_count || bad_id_count->count() == 1,
          operation,
          ": bad_id_count of shape ",
          bad_id_count ? bad_id_count->shape() : Shape{},
          "; expected a scalar");
  kernels::IdReport report;
  if (bad_id_count) {
    report.count = reinterpret_cast<std::uint64_t*>(bad_id_count->data());
    written.add(*bad_id_count);
  }
  if (policy == OutOfRange::trap) {
    auto& traps = device.template attachment<IdTraps<R>>();
    report.trap = traps.trap();
    report.operation = traps.operation(NameScope::qualify(operation));
  }
  return report;
}

}  // namespace msstream::ops::detail
