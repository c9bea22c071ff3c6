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

/// One device's report of bad ids and bags in operations with OutOfRange::trap, checked whenever
/// the host waits for the device.
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

  /// Throws once for each one caught, and is then ready to catch the next.
  void check() {
    std::atomic_ref<std::uint32_t> set(trap_->set);
    if (set.load(std::memory_order_acquire) != 1) {
      return;
    }
    std::lock_guard const guard(mutex_);
    auto const& name = names_.at(trap_->operation);
    auto const& caught = trap_->caught;
    auto const message = caught.bag < 0
                             ? text(name, ": id ", caught.id, " outside [0, ", caught.rows, ")")
                             : text(name,
                                    ": bag ",
                                    caught.bag,
                                    " from offset ",
                                    caught.id,
                                    " to ",
                                    caught.end,
                                    "; expected offsets that ascend within [0, ",
                                    caught.rows,
                                    "]");
    set.store(0, std::memory_order_release);
    throw std::out_of_range(message);
  }

  std::shared_ptr<R> runtime_;
  std::unique_ptr<kernels::IdTrap, FreePinned> trap_;
  std::mutex mutex_;
  std::vector<std::string> names_;
};

/// A policy, and what its operation calls the counter.
struct ReportPolicy {
  OutOfRange out_of_range;
  char const* counter;

  ReportPolicy(OutOfRange policy,  // NOLINT(google-explicit-constructor): mostly that is all
               char const* counter_name = "bad_id_count")
      : out_of_range(policy), counter(counter_name) {}
};

/// Where `operation` reports bad ids and bags; a count is added to what it writes. Throws
/// std::invalid_argument unless there is a scalar to count in, if and only if they are counted.
template <Runtime R, class Written>
kernels::IdReport id_report(char const* operation,
                            DeviceState<R>& device,
                            ReportPolicy const& policy,
                            std::optional<Tensor<std::int64_t, R>> const& counter,
                            Written& written) {
  require(counter.has_value() == (policy.out_of_range == OutOfRange::count),
          operation,
          ": ",
          policy.counter,
          " goes with OutOfRange::count");
  require(!counter || counter->count() == 1,
          operation,
          ": ",
          policy.counter,
          " of shape ",
          counter ? counter->shape() : Shape{},
          "; expected a scalar");
  kernels::IdReport report;
  if (counter) {
    report.count = reinterpret_cast<std::uint64_t*>(counter->data());
    written.add(*counter);
  }
  if (policy.out_of_range == OutOfRange::trap) {
    auto& traps = device.template attachment<IdTraps<R>>();
    report.trap = traps.trap();
    report.operation = traps.operation(NameScope::qualify(operation));
  }
  return report;
}

}  // namespace msstream::ops::detail
