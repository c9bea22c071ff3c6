// SPDX-License-Identifier: Apache-2.0
#include "memory/device/device_state.hpp"
#include "tensor/issue_on.hpp"
#include "tensor/operation_group.hpp"
#include "tensor/submit_observed.hpp"

#include <msstream/tensor/detail/any_issue.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <mutex>
#include <source_location>
#include <stdexcept>
#include <utility>
#include <vector>

namespace msstream::detail {
namespace {

/// Returns `device`. Throws std::invalid_argument if the device `before` has another dependency
/// tracker, because positions of two trackers cannot be compared.
DeviceState* same_tracker(char const* name, DeviceState* before, DeviceState* device) {
  if (before != nullptr && before != device &&
      before->context->tracker != device->context->tracker) {
    throw std::invalid_argument(
        fmt::format("operation '{}' names tensors of devices that do not share a tracker: see "
                    "DeviceOptions::tracker",
                    NameScope::qualify(name)));
  }
  return device;
}

/// The memory of the tensors that an operation is declared to read and write.
class NamedUses final : public ObservedUses {
 public:
  NamedUses(AnyUses const* read, AnyUses const* written) noexcept
      : read_(read), written_(written) {}

  [[nodiscard]] std::vector<MemoryUse> memory() const override {
    std::vector<MemoryUse> uses;
    for (auto const* const list : {read_, written_}) {
      if (list != nullptr) {
        for (auto const& use : list->uses()) {
          uses.push_back({use.begin, use.bytes, use.mode, 0, use.block != nullptr});
        }
      }
    }
    return uses;
  }
  [[nodiscard]] OperationParts parts() const override { return nullptr; }
  [[nodiscard]] std::vector<memory::Block*> blocks(AccessMode mode) const override {
    std::vector<memory::Block*> blocks;
    if (auto const* const list = mode == AccessMode::read ? read_ : written_) {
      for (auto const& use : list->uses()) {
        if (use.block != nullptr) {
          blocks.push_back(use.block);
        }
      }
    }
    return blocks;
  }

 private:
  AnyUses const* read_;
  AnyUses const* written_;
};

/// Returns the accesses of a captured operation, in the access records of the calling thread's
/// capture on the device.
AccessSet captured_accesses(DeviceState const& device,
                            AnyUses const* read,
                            AnyUses const* written) {
  auto& capture = OpenCapture::of_this_thread(*device.context);
  AccessSet accesses;
  auto const add_each = [&](AnyUses const* list, AccessMode mode) {
    if (list == nullptr) {
      return;
    }
    for (auto const& use : list->uses()) {
      auto* const record = use.block == nullptr ? nullptr : capture.record_of(*use.block, mode);
      if (record != nullptr) {
        accesses.add(*record, mode);
      }
    }
  };
  add_each(read, AccessMode::read);
  add_each(written, AccessMode::write);
  return accesses;
}

/// Returns the group that last wrote the memory of an input. If groups of the placement's pool
/// wrote several inputs, the first of these inputs decides; if they wrote none, returns null. In a
/// capture, writes in the capture count before earlier ones.
StreamGroup* writer_of(Placement const& placement, DeviceState const& device, AnyUses const& read) {
  for (auto const& use : read.uses()) {
    if (use.block == nullptr || use.block->immutable) {
      continue;
    }
    StreamGroup* writer = nullptr;
    if (auto* const capture = OpenCapture::current(*device.context)) {
      writer = capture->writer_of(*use.block);
      if (writer != nullptr && !placement.contains(*writer)) {
        continue;
      }
    }
    if (writer == nullptr) {
      std::lock_guard const guard(use.block->record.lock);
      writer = placement.writer(use.block->record.log);
    }
    if (writer != nullptr) {
      return writer;
    }
  }
  return nullptr;
}

[[noreturn]] void throw_logic_error_for_lost(char const* name) {
  throw std::logic_error(fmt::format(
      "operation '{}' reads a tensor that was made in a capture that failed, so that it has no "
      "contents; make it again, and drop what a GradientTape recorded there by clear()",
      NameScope::qualify(name)));
}

/// Adds the tracked uses of an operation to `accesses`, and returns the device of its tensors.
/// Throws std::logic_error for a write to an immutable tensor, and std::invalid_argument without
/// any tensor or for devices that do not share a tracker.
DeviceState& add_accesses(char const* name,
                          AnyUses const* read,
                          AnyUses const* written,
                          AccessSet& accesses) {
  DeviceState* device = nullptr;
  if (read != nullptr) {
    device = read->device();
    for (auto const& use : read->uses()) {
      if (use.block == nullptr) {
        continue;
      }
      device = same_tracker(name, device, use.block->device->get());
      if (!use.block->immutable) {
        accesses.add(use.block->record, AccessMode::read);
      } else if (use.block->lost) {
        throw_logic_error_for_lost(name);
      }
    }
  }
  if (written != nullptr) {
    device = device != nullptr ? device : written->device();
    for (auto const& use : written->uses()) {
      if (use.block == nullptr) {
        continue;
      }
      if (use.block->immutable) {
        if (!use.block->lost) {
          throw std::logic_error(
              fmt::format("operation '{}' writes an immutable tensor", NameScope::qualify(name)));
        }
        use.block->lost = false;  // it gets contents
        use.block->immutable = false;
      }
      device = same_tracker(name, device, use.block->device->get());
      accesses.add(use.block->record, AccessMode::write);
    }
  }
  if (device == nullptr) {
    throw std::invalid_argument(fmt::format("operation '{}' names no tensor", name));
  }
  device->context->home.require_here();
  return *device;
}

/// Submits an operation to the group that has been chosen for it.
order::Position submit_to(StreamGroup& group,
                          DeviceState& device,
                          char const* name,
                          AnyUses const* read,
                          AnyUses const* written,
                          AccessSet& accesses,
                          WorkRef work,
                          StreamKind stream,
                          std::source_location issued_at) {
  if (group.captured()) [[unlikely]] {
    accesses = captured_accesses(device, read, written);
  }
  NamedUses const uses(read, written);
  return submit_observed({device, group, name, stream, issued_at, uses}, accesses, work);
}

}  // namespace

order::Position issue_any(char const* name,
                          AnyUses const* read,
                          AnyUses const* written,
                          WorkRef work,
                          IssueOptions const& options,
                          std::source_location issued_at) {
  AccessSet accesses;
  auto& device = add_accesses(name, read, written, accesses);
  // The inputs of an operation on an h2d stream are written by the host, so they do not decide the
  // group.
  OperationGroup const chosen(device, name, [&](Placement const& placement) -> StreamGroup* {
    bool const has_inputs = read != nullptr && options.stream != StreamKind::h2d;
    return has_inputs ? writer_of(placement, device, *read) : nullptr;
  });
  return submit_to(*chosen, device, name, read, written, accesses, work, options.stream, issued_at);
}

order::Position issue_on(StreamGroup& group,
                         char const* name,
                         AnyUses const* read,
                         AnyUses const* written,
                         WorkRef work,
                         std::source_location issued_at) {
  AccessSet accesses;
  auto& device = add_accesses(name, read, written, accesses);
  return submit_to(device.here(group),
                   device,
                   name,
                   read,
                   written,
                   accesses,
                   work,
                   StreamKind::compute,
                   issued_at);
}

}  // namespace msstream::detail
