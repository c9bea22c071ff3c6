// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator_state.hpp"
#include "memory/device/device_state.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/comm/collectives.hpp>
#include <msstream/tensor/detail/overlap.hpp>

#include <fmt/core.h>

#include <cstdint>
#include <source_location>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace msstream::comm::detail {

using msstream::detail::AnyUses;
using msstream::detail::require_no_overlap;

namespace {

/// A call of a collective on one rank.
struct Call {
  AnyCommunicator const& communicator;
  CollectiveKind kind;
  std::source_location issued_at;
};

/// Throws std::invalid_argument with the name of the collective and the place of the call, and
/// notes the message, which tells the other ranks why they have waited in vain if the exception
/// ends this one.
template <class... Arguments>
[[noreturn, gnu::noinline, gnu::cold]] void refuse(Call const& call,
                                                   fmt::format_string<Arguments...> format,
                                                   Arguments&&... arguments) {
  auto const message = fmt::format("{}: {}, at {}:{}",
                                   name_of(call.kind),
                                   fmt::format(format, std::forward<Arguments>(arguments)...),
                                   call.issued_at.file_name(),
                                   call.issued_at.line());
  call.communicator.state().note_refusal(message);
  msstream::detail::throw_invalid_argument(message);
}

/// Throws std::invalid_argument unless the tensor is on the communicator's device.
void require_device(Call const& call, AnyTensor const& tensor) {
  if (tensor.device() != call.communicator.state().device().state()) [[unlikely]] {
    refuse(call,
           "a tensor of shape {} on another device than that of communicator '{}'",
           tensor.shape(),
           call.communicator.name());
  }
}

/// Throws std::invalid_argument if a tensor that is written shares memory with one that is read.
void require_apart(Call const& call, AnyTensor const& to, AnyTensor const& from) {
  constexpr std::string_view kName = "collective";
  try {
    require_no_overlap(kName.data(), to, from);
  } catch (std::invalid_argument const& overlap) {
    // The message begins with the name, which refuse() writes.
    refuse(call, "{}", std::string_view(overlap.what()).substr(kName.size() + 2));
  }
}

void require_reduction(Call const& call, DType dtype, Reduction reduction) {
  bool const is_float =
      dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
  if (!is_float && reduction == Reduction::mean) [[unlikely]] {
    refuse(call, "the mean of {}; expected float32, float16 or bfloat16", name_of(dtype));
  }
}

void require_rank(Call const& call, int rank) {
  if (rank < 0 || rank >= call.communicator.size()) [[unlikely]] {
    refuse(call,
           "rank {} of communicator '{}', which has {}",
           rank,
           call.communicator.name(),
           call.communicator.size());
  }
}

/// Issues a collective that only reads its tensor on this rank.
order::Position issue_of_sender(AnyCommunicator const& communicator,
                                Collective const& what,
                                AnyTensor const& tensor,
                                std::source_location issued_at) {
  require_device({communicator, what.kind, issued_at}, tensor);
  AnyUses read(AccessMode::read);
  read.add(tensor);
  AnyUses written(AccessMode::write);
  Part part{.what = what, .issued_at = issued_at};
  part.input = tensor.data();
  return communicator.state().issue(part, &read, written);
}

/// Issues a collective that only writes its tensor on this rank.
order::Position issue_of_receiver(AnyCommunicator const& communicator,
                                  Collective const& what,
                                  AnyTensor const& tensor,
                                  std::source_location issued_at) {
  require_device({communicator, what.kind, issued_at}, tensor);
  AnyUses written(AccessMode::write);
  written.add(tensor);
  Part part{.what = what, .issued_at = issued_at};
  part.output = tensor.data();
  return communicator.state().issue(part, nullptr, written);
}

/// Issues a collective that reads one tensor and writes another one.
order::Position issue_apart(AnyCommunicator const& communicator,
                            Collective const& what,
                            AnyTensor const& input,
                            AnyTensor const& output,
                            std::source_location issued_at) {
  require_device({communicator, what.kind, issued_at}, input);
  require_device({communicator, what.kind, issued_at}, output);
  require_apart({communicator, what.kind, issued_at}, output, input);
  AnyUses read(AccessMode::read);
  read.add(input);
  AnyUses written(AccessMode::write);
  written.add(output);
  Part part{.what = what, .issued_at = issued_at};
  part.input = input.data();
  part.output = output.data();
  return communicator.state().issue(part, &read, written);
}

/// Throws std::invalid_argument unless `whole` has as many elements as `part` on each rank.
void require_parts(Call const& call,
                   char const* whole_name,
                   AnyTensor const& whole,
                   char const* part_name,
                   AnyTensor const& part) {
  auto const ranks = call.communicator.size();
  if (whole.count() != part.count() * ranks) [[unlikely]] {
    refuse(call,
           "{} {} and {} {} on {} ranks; expected {} elements",
           whole_name,
           whole.shape(),
           part_name,
           part.shape(),
           ranks,
           part.count() * ranks);
  }
}

void require_counts(Call const& call, char const* name, AnyTensor const& counts) {
  require_device(call, counts);
  if (counts.count() != call.communicator.size()) [[unlikely]] {
    refuse(call,
           "{} {} on {} ranks; expected an element a rank",
           name,
           counts.shape(),
           call.communicator.size());
  }
}

}  // namespace

order::Position all_reduce(AnyCommunicator const& communicator,
                           AnyTensor const& tensor,
                           Reduction reduction,
                           std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::all_reduce;
  Call const call{communicator, kind, issued_at};
  require_reduction(call, tensor.dtype(), reduction);
  require_device(call, tensor);
  AnyUses written(AccessMode::write);
  written.add(tensor);
  Part part{.what = {.kind = kind,
                     .dtype = tensor.dtype(),
                     .count = tensor.count(),
                     .reduction = reduction},
            .issued_at = issued_at};
  part.input = tensor.data();
  part.output = tensor.data();
  return communicator.state().issue(part, nullptr, written);
}

order::Position reduce_scatter(AnyCommunicator const& communicator,
                               AnyTensor const& input,
                               AnyTensor const& output,
                               Reduction reduction,
                               std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::reduce_scatter;
  Call const call{communicator, kind, issued_at};
  require_reduction(call, input.dtype(), reduction);
  require_parts(call, "input", input, "output", output);
  return issue_apart(
      communicator,
      {.kind = kind, .dtype = input.dtype(), .count = output.count(), .reduction = reduction},
      input,
      output,
      issued_at);
}

order::Position all_gather(AnyCommunicator const& communicator,
                           AnyTensor const& input,
                           AnyTensor const& output,
                           std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::all_gather;
  Call const call{communicator, kind, issued_at};
  require_parts(call, "output", output, "input", input);
  auto const* const own_part = static_cast<std::byte const*>(output.data()) +
                               static_cast<std::size_t>(communicator.rank()) * input.bytes();
  if (input.count() != 0 && input.data() == own_part) {
    require_device(call, output);
    AnyUses written(AccessMode::write);
    written.add(output);
    Part part{.what = {.kind = kind, .dtype = input.dtype(), .count = input.count()},
              .issued_at = issued_at};
    part.input = input.data();
    part.output = output.data();
    return communicator.state().issue(part, nullptr, written);
  }
  return issue_apart(communicator,
                     {.kind = kind, .dtype = input.dtype(), .count = input.count()},
                     input,
                     output,
                     issued_at);
}

order::Position all_to_all(AnyCommunicator const& communicator,
                           AnyTensor const& input,
                           AnyTensor const& output,
                           std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::all_to_all;
  Call const call{communicator, kind, issued_at};
  if (input.count() != output.count() || input.count() % communicator.size() != 0) [[unlikely]] {
    refuse(call,
           "input {} and output {} on {} ranks; expected equal numbers of elements, a multiple of "
           "the ranks",
           input.shape(),
           output.shape(),
           communicator.size());
  }
  return issue_apart(communicator,
                     {.kind = kind, .dtype = input.dtype(), .count = input.count()},
                     input,
                     output,
                     issued_at);
}

order::Position all_to_all(AnyCommunicator const& communicator,
                           AnyTensor const& input,
                           AnyTensor const& counts,
                           AnyTensor const& output,
                           AnyTensor const& received,
                           std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::all_to_all_counted;
  Call const call{communicator, kind, issued_at};
  auto const& shape = input.shape();
  if (!(shape.rank() >= 2 && shape[0] == communicator.size() && output.shape() == shape))
      [[unlikely]] {
    refuse(call,
           "input {} and output {} with counts, on {} ranks; expected two of shape [ranks, "
           "capacity, …]",
           shape,
           output.shape(),
           communicator.size());
  }
  require_counts(call, "counts", counts);
  require_counts(call, "received", received);
  require_device(call, input);
  require_device(call, output);
  require_apart(call, output, input);
  require_apart(call, received, counts);
  AnyUses read(AccessMode::read);
  read.add(input);
  read.add(counts);
  AnyUses written(AccessMode::write);
  written.add(output);
  written.add(received);
  Part part{
      .what = {.kind = kind, .dtype = input.dtype(), .count = input.count(), .capacity = shape[1]},
      .issued_at = issued_at};
  part.input = input.data();
  part.output = output.data();
  part.counts = counts.data_as<std::int64_t>();
  part.received = received.data_as<std::int64_t>();
  return communicator.state().issue(part, &read, written);
}

order::Position broadcast(AnyCommunicator const& communicator,
                          AnyTensor const& tensor,
                          int root,
                          std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::broadcast;
  Call const call{communicator, kind, issued_at};
  require_rank(call, root);
  Collective const what{
      .kind = kind, .dtype = tensor.dtype(), .count = tensor.count(), .peer = root};
  return root == communicator.rank() ? issue_of_sender(communicator, what, tensor, issued_at)
                                     : issue_of_receiver(communicator, what, tensor, issued_at);
}

order::Position send(AnyCommunicator const& communicator,
                     AnyTensor const& tensor,
                     int to,
                     std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::send;
  Call const call{communicator, kind, issued_at};
  require_rank(call, to);
  if (!(to != communicator.rank())) [[unlikely]] {
    refuse(call, "rank {} to itself", to);
  }
  return issue_of_sender(
      communicator,
      {.kind = kind, .dtype = tensor.dtype(), .count = tensor.count(), .peer = to},
      tensor,
      issued_at);
}

order::Position receive(AnyCommunicator const& communicator,
                        AnyTensor const& tensor,
                        int from,
                        std::source_location issued_at) {
  constexpr auto kind = CollectiveKind::receive;
  Call const call{communicator, kind, issued_at};
  require_rank(call, from);
  if (!(from != communicator.rank())) [[unlikely]] {
    refuse(call, "rank {} from itself", from);
  }
  return issue_of_receiver(
      communicator,
      {.kind = kind, .dtype = tensor.dtype(), .count = tensor.count(), .peer = from},
      tensor,
      issued_at);
}

order::Position barrier(AnyCommunicator const& communicator, std::source_location issued_at) {
  AnyUses written(AccessMode::write);
  return communicator.state().issue(
      {.what = {.kind = CollectiveKind::barrier}, .issued_at = issued_at}, nullptr, written);
}

}  // namespace msstream::comm::detail
