// SPDX-License-Identifier: Apache-2.0
#include "comm/mail/mail_cuda.hpp"

#include <msstream/base/error.hpp>

#include <cuda_runtime_api.h>

#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <stdexcept>
#include <utility>

namespace msstream::comm::detail {
namespace {

using msstream::detail::Backend;
using msstream::detail::NativeStream;

/// Bytes of pieces for all other ranks of a block.
constexpr std::size_t kPieceBytes = std::size_t{64} << 10U;

}  // namespace

Mail::Signals::Signals(std::shared_ptr<Backend> of)
    : runtime(std::move(of)),
      shared(new (runtime->allocate_pinned(sizeof(MailSignals))) MailSignals()) {}

Mail::Signals::~Signals() {
  if (!home.is_left()) {
    runtime->free_pinned(shared, sizeof(MailSignals));
  }
}

Mailboxes Mail::boxes_for(Peers const& peers, int most_sms) {
  Mailboxes boxes;
  boxes.rank = peers.rank();
  boxes.size = peers.size();
  boxes.blocks =
      most_sms == 0 ? Mailboxes::kMostBlocks : std::min(most_sms, Mailboxes::kMostBlocks);
  boxes.piece_bytes =
      kPieceBytes / std::bit_ceil(static_cast<unsigned>(std::max(peers.size() - 1, 1)));
  return boxes;
}

std::shared_ptr<Mail> Mail::make(std::shared_ptr<Backend> const& runtime,
                                 Peers& peers,
                                 CommunicatorSettings const& settings) {
  if (!settings.peer_access || !are_mapped(*runtime, peers)) {
    return nullptr;
  }
  load_mail_kernels();
  try {
    return std::make_shared<Mail>(runtime, peers, settings);
  } catch (NotMapped const&) {
    return nullptr;  // NCCL carries everything out
  }
}

Mail::Mail(std::shared_ptr<Backend> runtime, Peers& peers, CommunicatorSettings const& settings)
    : runtime_(std::move(runtime)),
      limits_{.ranks = peers.size(), .uses_engines = settings.copy_engines},
      boxes_(boxes_for(peers, settings.most_sms)),
      signals_(runtime_),
      memory_(runtime_, peers, boxes_.bytes_of_box(), Mailboxes::kCountBytes) {
  boxes_.of_rank = memory_.of_rank();
  boxes_.signals = signals_.shared;
}

void Mail::put(NativeStream stream, Part const& part) const {
  if (limits_.is_for_engines(part.what)) {
    return put_on_engines(stream, part);
  }
  put_by_mail(stream, boxes_, part, boxes_.blocks);
}

void Mail::put_on_engines(NativeStream stream, Part const& part) const {
  bool const is_gathered = part.what.kind == CollectiveKind::all_gather;
  auto const ranks = static_cast<std::size_t>(boxes_.size);
  auto const own = static_cast<std::size_t>(boxes_.rank);
  auto const bytes = bytes_for_each(part.what, boxes_.size);
  auto const* const input = static_cast<std::byte const*>(part.input);
  auto const output = on_all_ranks(part.output);
  Part const meeting{.what = {.kind = CollectiveKind::barrier}};
  put_by_mail(stream, boxes_, meeting, 1);  // the others may write to the output from here on
  for (std::size_t i = 0; i < ranks; ++i) {
    // Each rank begins with the one after it, so that all of them are written to at any time.
    auto const rank = (own + 1 + i) % ranks;
    auto const* const from = is_gathered ? input : input + rank * bytes;
    auto* const to = output[rank] + own * bytes;
    if (to == from || bytes == 0) {
      continue;
    }
    auto const code =
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
    if (code != cudaSuccess) {
      throw CudaError(static_cast<int>(code), cudaGetErrorString(code), "cudaMemcpyAsync");
    }
  }
  put_by_mail(stream, boxes_, meeting, 1);
}

std::shared_ptr<void> Mail::symmetric_memory(Peers& peers, std::size_t bytes) {
  auto const mapped = std::make_shared<MappedMemory>(runtime_, peers, bytes);
  std::lock_guard const guard(mutex_);
  auto const& made = symmetric_.emplace_back(Symmetric{mapped, bytes, symmetric_made_++});
  symmetric_count_.store(symmetric_.size());
  return {made.of(boxes_.rank),
          [self = shared_from_this(), memory = mapped.get()](void*) { self->forget(memory); }};
}

void Mail::forget(MappedMemory const* memory) noexcept {
  std::shared_ptr<MappedMemory> last;  // freed without the lock
  std::lock_guard const guard(mutex_);
  auto const at = std::ranges::find_if(
      symmetric_, [&](Symmetric const& symmetric) { return symmetric.memory.get() == memory; });
  if (at != symmetric_.end()) {
    last = std::move(at->memory);
    symmetric_.erase(at);
    symmetric_count_.store(symmetric_.size());
  }
}

Mail::Symmetric const* Mail::symmetric_with(void const* memory) const {
  auto const* const at = static_cast<std::byte const*>(memory);
  auto const found = std::ranges::find_if(symmetric_, [&](Symmetric const& symmetric) {
    auto const* const begin = symmetric.of(boxes_.rank);
    return at >= begin && at < begin + symmetric.bytes;
  });
  return found == symmetric_.end() ? nullptr : &*found;
}

std::int64_t Mail::place_of(void const* memory) const {
  constexpr unsigned kPlaceBits = 40;
  std::lock_guard const guard(mutex_);
  auto const* const symmetric = symmetric_with(memory);
  return symmetric == nullptr
             ? -1
             : (symmetric->number << kPlaceBits) +
                   (static_cast<std::byte const*>(memory) - symmetric->of(boxes_.rank));
}

std::array<std::byte*, Mailboxes::kMostRanks> Mail::on_all_ranks(void* memory) const {
  std::lock_guard const guard(mutex_);
  auto const* const symmetric = symmetric_with(memory);
  if (symmetric == nullptr) {
    throw std::logic_error("a collective by copy engines of a tensor that is not symmetric");
  }
  auto const offset = static_cast<std::byte*>(memory) - symmetric->of(boxes_.rank);
  auto all = symmetric->memory->of_rank();
  for (int rank = 0; rank < boxes_.size; ++rank) {
    all[static_cast<std::size_t>(rank)] += offset;
  }
  return all;
}

void Mail::stop() noexcept {
  if (!signals_.home.is_left()) {
    *static_cast<int volatile*>(&signals_.shared->stop) = 1;
  }
}

std::optional<std::string> Mail::bad_count() const {
  auto& signals = *signals_.shared;
  if (signals_.home.is_left() ||
      std::atomic_ref(signals.fault).load(std::memory_order_acquire) == 0) {
    return std::nullopt;
  }
  return fmt::format(
      "rank {} has an all_to_all whose count for rank {} is {}, outside [0, {}]; rank {} has "
      "issued "
      "its own at {}:{}",
      signals.from,
      signals.to,
      signals.count,
      signals.capacity,
      boxes_.rank,
      signals.issued_at.file_name(),
      signals.issued_at.line());
}

}  // namespace msstream::comm::detail
