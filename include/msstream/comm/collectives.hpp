// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/reduction.hpp>
#include <msstream/order/position.hpp>
#include <msstream/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

/// Collectives: operations between all ranks of a communicator. Each is issued, as issue() does, to
/// the communicator's own group: it follows the earlier uses of its tensors, later uses follow it,
/// and all other work may run meanwhile. The host does not wait. Returns the operation's position.
///
/// Every rank calls the same function, with the same element type, counts and choices. A call
/// throws std::invalid_argument for arguments that are wrong by themselves, and the failure of the
/// communicator if it has failed. If the calls of the ranks differ, the communicator fails with
/// CollectiveError when the ranks meet. In a capture, a collective meets the other ranks at each
/// replay.
namespace msstream::comm {

/// Returns a tensor whose elements are undefined, in memory that the GPUs of the communicator's
/// ranks reach, to which their copy engines write: with CommunicatorOptions::peer_access, where it
/// has effect; otherwise in memory that NCCL registers. On other runtimes, in memory of the device.
/// Collectives of the communicator use the whole tensor or the same part of it on all ranks; with
/// other parts, ranks that are threads fail with CollectiveError, and processes write elsewhere. If
/// a rank is lost while others are in a collective of a tensor that NCCL has registered, NCCL
/// cannot end it: they wait for ever. After any failure, copies of other ranks may still write to
/// the tensor for a moment. The memory comes from the driver, and not from the device's allocator,
/// and dropping the tensor blocks the host until its uses are complete. Blocks the host until all
/// ranks have called it. Throws std::invalid_argument
/// on all ranks if their shapes or element types differ, the failure of the communicator,
/// std::logic_error in a capture, and std::runtime_error on all ranks if one has too little memory,
/// or if NCCL fails, which ends the communicator.
template <Element T, Runtime R>
[[nodiscard]] Tensor<T, R> symmetric_tensor(Communicator<R> const& communicator,
                                            Shape const& shape) {
  return {msstream::detail::OfKnownType(),
          detail::symmetric_tensor(communicator.any(), dtype_of<T>, shape)};
}

/// Combines the tensors of all ranks, element by element, and gives every rank the result in the
/// place of its tensor. The elements are combined in the order of the ranks, so that the bits are
/// the same in every run and on every rank.
template <Element T, Runtime R>
order::Position all_reduce(Communicator<R> const& communicator,
                           Tensor<T, R> const& tensor,
                           Reduction reduction = Reduction::sum,
                           std::source_location issued_at = std::source_location::current()) {
  return detail::all_reduce(communicator.any(), tensor.any(), reduction, issued_at);
}

/// Combines the inputs of all ranks, element by element as all_reduce() does, and gives each rank
/// its part of the result, of `output.count()` elements: rank r that from element r *
/// output.count(). `input` has size() times the elements of `output`.
template <Element T, Runtime R>
order::Position reduce_scatter(Communicator<R> const& communicator,
                               Tensor<T, R> const& input,
                               Tensor<T, R> const& output,
                               Reduction reduction = Reduction::sum,
                               std::source_location issued_at = std::source_location::current()) {
  return detail::reduce_scatter(
      communicator.any(), input.any(), output.any(), reduction, issued_at);
}

/// Gives every rank the inputs of all ranks, one after the other in the order of the ranks.
/// `output` has size() times the elements of `input`, which may be this rank's part of it.
template <Element T, Runtime R>
order::Position all_gather(Communicator<R> const& communicator,
                           Tensor<T, R> const& input,
                           Tensor<T, R> const& output,
                           std::source_location issued_at = std::source_location::current()) {
  return detail::all_gather(communicator.any(), input.any(), output.any(), issued_at);
}

/// Gives each rank a part of every rank's input. Tensors consist of size() equal parts: part r of
/// rank q's output is part q of rank r's input.
template <Element T, Runtime R>
order::Position all_to_all(Communicator<R> const& communicator,
                           Tensor<T, R> const& input,
                           Tensor<T, R> const& output,
                           std::source_location issued_at = std::source_location::current()) {
  return detail::all_to_all(communicator.any(), input.any(), output.any(), issued_at);
}

/// Gives each rank some rows of every rank's input, as many as a tensor on the device says. `input`
/// and `output` have the shape [size(), capacity, …]: of `input[r]`, rank r gets the first
/// `counts[r]` rows as the first rows of its `output[rank()]`, and the number of these rows as its
/// `received[rank()]`. The other rows of `output` are undefined. `counts` and `received` have
/// size() elements. A count outside [0, capacity] makes the communicator fail with CollectiveError;
/// by NCCL, and with one rank on CUDA, the rows are copied up to the capacity, and counts are not
/// checked.
template <Element T, Runtime R>
order::Position all_to_all(Communicator<R> const& communicator,
                           Tensor<T, R> const& input,
                           Tensor<std::int64_t, R> const& counts,
                           Tensor<T, R> const& output,
                           Tensor<std::int64_t, R> const& received,
                           std::source_location issued_at = std::source_location::current()) {
  return detail::all_to_all(
      communicator.any(), input.any(), counts.any(), output.any(), received.any(), issued_at);
}

/// Gives every rank the elements of the rank `root`, in the place of its tensor.
template <Element T, Runtime R>
order::Position broadcast(Communicator<R> const& communicator,
                          Tensor<T, R> const& tensor,
                          int root = 0,
                          std::source_location issued_at = std::source_location::current()) {
  return detail::broadcast(communicator.any(), tensor.any(), root, issued_at);
}

/// Sends the elements to the rank `to`, which calls receive(). Later collectives of the
/// communicator wait until the other rank has come: of two ranks that exchange tensors, one must
/// send first, and the other one receive first.
template <Element T, Runtime R>
order::Position send(Communicator<R> const& communicator,
                     Tensor<T, R> const& tensor,
                     int to,
                     std::source_location issued_at = std::source_location::current()) {
  return detail::send(communicator.any(), tensor.any(), to, issued_at);
}

/// Receives the elements that the rank `from` sends with send().
template <Element T, Runtime R>
order::Position receive(Communicator<R> const& communicator,
                        Tensor<T, R> const& tensor,
                        int from,
                        std::source_location issued_at = std::source_location::current()) {
  return detail::receive(communicator.any(), tensor.any(), from, issued_at);
}

/// Ends when all ranks have come to it, after their earlier collectives of the communicator. To
/// make the host wait, pass the position to Device::synchronize().
template <Runtime R>
order::Position barrier(Communicator<R> const& communicator,
                        std::source_location issued_at = std::source_location::current()) {
  return detail::barrier(communicator.any(), issued_at);
}

}  // namespace msstream::comm
