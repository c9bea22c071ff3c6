// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/data_plan.hpp"

#include "memory/device/device_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/tensor/detail/any_issue.hpp>
#include <msstream/tensor/issue.hpp>

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace msstream::detail {

namespace {

/// The most copies of one operation, whose tensors all wait for its last copy.
constexpr std::size_t kMostCopies = 64;

[[nodiscard]] std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + DataPlan::kAlignment - 1) / DataPlan::kAlignment * DataPlan::kAlignment;
}

}  // namespace

order::Position issue_copies(char const* name,
                             CopyKind kind,
                             AnyUses const& read,
                             AnyUses const& written,
                             std::vector<ByteCopy> copies,
                             DeviceState const& device,
                             std::source_location issued_at) {
  auto* const runtime = device.context->runtime.get();
  StreamKind const stream = kind == CopyKind::h2d   ? StreamKind::h2d
                            : kind == CopyKind::d2h ? StreamKind::d2h
                                                    : StreamKind::compute;
  return issue_any(name,
                   &read,
                   &written,
                   WorkRef::native([runtime, kind, list = std::move(copies)](NativeStream native) {
                     for (auto const& copy : list) {
                       runtime->copy(copy.to, copy.from, copy.bytes, kind, native);
                     }
                   }),
                   {.stream = stream},
                   issued_at);
}

DataPlan::DataPlan(checkpoint::Tensors const& tensors, std::uint64_t staging_bytes) {
  for (auto const& [name, tensor, is_optional] : tensors.any()) {
    TensorEntry entry{name, tensor.dtype(), {}, false};
    for (std::size_t i = 0; i < tensor.shape().rank(); ++i) {
      entry.shape.push_back(tensor.shape()[i]);
    }
    entries_.push_back(std::move(entry));
  }
  std::vector<HostState::Array> arrays;
  for (auto const& [prefix, state] : tensors.states()) {
    for (auto& array : state->arrays()) {
      entries_.push_back({prefix + array.name, array.dtype, array.shape, true});
      arrays.push_back(std::move(array));
    }
  }
  begins_.push_back(0);
  for (auto const i : lay_out(entries_, {}).order) {
    if (i >= tensors.count()) {
      host_arrays_.push_back(std::move(arrays[i - tensors.count()]));
      continue;
    }
    tensors_.push_back(tensors.any()[i].tensor);
    begins_.push_back(begins_.back() + tensors_.back().bytes());
  }
  // The tensors are staged from the last one backwards, until the limit is reached within one.
  staged_.resize(tensors_.size());
  std::uint64_t left = staging_bytes;
  std::uint64_t at = 0;
  bool is_full = false;
  unstaged_ = bytes();
  for (std::size_t i = tensors_.size(); i-- > 0;) {
    std::uint64_t const whole = tensors_[i].bytes();
    std::uint64_t from = whole;
    if (!is_full && aligned(whole) <= left) {
      from = 0;
    } else if (!is_full) {
      is_full = true;
      auto const room = left / kAlignment * kAlignment;
      from = whole > room ? std::min(whole, aligned(whole - room)) : 0;
    }
    staged_[i] = {from, at};
    auto const taken = aligned(whole - from);
    at += taken;
    left -= std::min(left, taken);
    if (!is_full || from < whole) {
      unstaged_ = begins_[i] + from;
    }
  }
  staging_bytes_ = at;
}

void DataPlan::write_host_arrays(OutputFile& file) const {
  for (auto const& array : host_arrays_) {
    file.write(array.bytes.data(), array.bytes.size());
  }
}

void DataPlan::stage(AnyTensor const& staging, std::source_location issued_at) const {
  AnyUses read(AccessMode::read);
  std::vector<ByteCopy> copies;
  auto const written = any_writes(staging);
  auto const issue = [&] {
    if (!copies.empty()) {
      issue_copies("checkpoint_d2d",
                   CopyKind::d2d,
                   std::exchange(read, AnyUses(AccessMode::read)),
                   written,
                   std::exchange(copies, {}),
                   *device(),
                   issued_at);
    }
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    auto const [from, at] = staged_[i];
    std::size_t const bytes = tensors_[i].bytes() - from;
    if (bytes == 0) {
      continue;
    }
    auto* const source = static_cast<std::byte const*>(tensors_[i].data()) + from;
    read.add(*tensors_[i].block(), source, bytes);
    copies.push_back({static_cast<std::byte*>(staging.data()) + at, source, bytes});
    if (copies.size() == kMostCopies) {
      issue();
    }
  }
  issue();
}

order::Position DataPlan::download(std::uint64_t begin,
                                   std::uint64_t end,
                                   AnyTensor const* staging,
                                   AnyPinnedArray const& to,
                                   std::source_location issued_at) const {
  AnyUses read(AccessMode::read);
  AnyUses written(AccessMode::write);
  written.add(*to.block(), to.data(), static_cast<std::size_t>(end - begin));
  std::vector<ByteCopy> copies;
  // The first tensor that ends behind `begin`.
  auto const after = std::ranges::upper_bound(begins_, begin);
  for (auto i = static_cast<std::size_t>(after - begins_.begin()) - 1;
       i < tensors_.size() && begins_[i] < end;
       ++i) {
    auto const first = std::max(begin, begins_[i]);
    auto const last = std::min(end, begins_[i + 1]);
    if (first >= last) {
      continue;
    }
    auto const bytes = static_cast<std::size_t>(last - first);
    auto const offset = first - begins_[i];
    auto const& tensor = tensors_[i];
    auto const* source = static_cast<std::byte const*>(tensor.data()) + offset;
    if (staging != nullptr && begin >= unstaged_) {
      source = static_cast<std::byte const*>(staging->data()) + staged_[i].at +
               (offset - staged_[i].from);
      read.add(*staging->block(), source, bytes);
    } else {
      read.add(*tensor.block(), source, bytes);
    }
    copies.push_back({static_cast<std::byte*>(to.data()) + (first - begin), source, bytes});
  }
  return issue_copies(
      "checkpoint_d2h", CopyKind::d2h, read, written, std::move(copies), *device(), issued_at);
}

void require_outside_capture(DeviceState const& device, char const* call) {
  device.context->home.require_here();
  InsideWork::refuse_wait(call);
  if (OpenCapture::current(*device.context) != nullptr) [[unlikely]] {
    throw std::logic_error(
        fmt::format("{} inside a capture, whose work has not run; expected between replays", call));
  }
}

}  // namespace msstream::detail
