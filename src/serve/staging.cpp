// SPDX-License-Identifier: Apache-2.0
#include "common/copy_and_tell.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/runtime/detail/backend.hpp>
#include <msstream/serve/detail/staging.hpp>
#include <msstream/tensor/detail/any_copy.hpp>
#include <msstream/tensor/detail/any_issue.hpp>
#include <msstream/tensor/issue.hpp>

#include <cstring>
#include <source_location>

namespace msstream::serve {

namespace {

void add(detail::AnyUses& uses, detail::AnyPinnedArray const& pinned) {
  uses.add(*pinned.block(), pinned.data(), pinned.bytes());
}

}  // namespace

Staging<detail::AnyRuntime>::Staging(std::shared_ptr<detail::DeviceState> const& device,
                                     std::shared_ptr<InputLayout const> layout,
                                     std::int64_t most_rows,
                                     std::int64_t outputs_per_row)
    : layout_(std::move(layout)),
      outputs_per_row_(outputs_per_row),
      pinned_(device, layout_->bytes(most_rows), sizeof(std::uint8_t)),
      packed_(device, {static_cast<std::int64_t>(layout_->bytes(most_rows))}, StreamKind::h2d),
      answers_(device, static_cast<std::size_t>(most_rows * outputs_per_row), sizeof(float)),
      arrived_(device, 1, sizeof(std::int32_t)) {
  std::memset(values(), 0, pinned_.bytes());
}

std::byte* Staging<detail::AnyRuntime>::values() const {
  pinned_.host_uses(AccessMode::write);
  return static_cast<std::byte*>(pinned_.data());
}

std::byte* Staging<detail::AnyRuntime>::values(std::int64_t rows, std::int64_t used) {
  auto* const to = values();
  if (rows != packed_for_) {
    if (packed_for_ != kNothing) {
      layout_->clear(to, rows, used);
    }
    packed_for_ = rows;
  }
  return to;
}

std::byte const* Staging<detail::AnyRuntime>::values_to_read() const {
  pinned_.host_uses(AccessMode::read);
  return static_cast<std::byte const*>(pinned_.data());
}

std::span<float const> Staging<detail::AnyRuntime>::answers() const {
  answers_.host_uses(AccessMode::read);
  return {static_cast<float const*>(answers_.data()), answers_.count()};
}

order::Position Staging<detail::AnyRuntime>::issue(
    std::int64_t rows,
    detail::AnyForward const& forward,
    bool& has_issued,
    std::span<std::shared_ptr<detail::StreamGroup> const> branches) const {
  auto const bytes = static_cast<std::int64_t>(layout_->bytes(rows));
  auto const inputs = packed_.rows(0, bytes);
  detail::copy_to_device(inputs.any(), pinned_, std::source_location::current());
  has_issued = true;
  auto const result = forward(detail::AnyInputs(layout_, packed_, rows, branches));
  require(result.shape() == Shape{rows, outputs_per_row_},
          "serve: the model returned a tensor of shape {}; expected [rows of the bucket, "
          "outputs_per_row], {}",
          result.shape(),
          Shape{rows, outputs_per_row_});
  return copy_to_host(result, inputs);
}

order::Position Staging<detail::AnyRuntime>::copy_to_host(
    detail::Floats const& result, detail::TensorOf<std::uint8_t> const& inputs) const {
  detail::AnyUses read(AccessMode::read);
  read.add(result.any());
  read.add(inputs.any());
  auto* const answers = static_cast<float*>(answers_.data());
  auto count = result.count();
  if (count > kMostToldAtOnce) {
    auto* const runtime = &result.any().backend();
    detail::AnyUses written(AccessMode::write);
    add(written, answers_);
    detail::issue_any("copy_d2h",
                      &read,
                      &written,
                      detail::WorkRef::native(
                          [runtime, to = answers, from = result.data(), bytes = result.bytes()](
                              detail::NativeStream native) {
                            runtime->copy(to, from, bytes, CopyKind::d2h, native);
                          }),
                      {.stream = StreamKind::d2h},
                      std::source_location::current());
    count = 0;
  }
  detail::AnyUses written(AccessMode::write);
  add(written, answers_);
  add(written, arrived_);
  ops::kernels::CopyAndTellArgs const args{
      result.data(), answers, count, static_cast<std::int32_t*>(arrived_.data())};
  return detail::issue_any("copy_and_tell",
                           &read,
                           &written,
                           detail::WorkRef::of<detail::AnyRuntime>(
                               [args](auto stream) { ops::kernels::copy_and_tell(stream, args); }),
                           {.stream = StreamKind::d2h},
                           std::source_location::current());
}

}  // namespace msstream::serve
