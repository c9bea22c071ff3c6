// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"
#include "comm/peers.hpp"
#include "comm/process_store.hpp"
#include "comm/timeout.hpp"
#include "comm/world_access.hpp"

#include <msstream/comm/communicator.hpp>
#include <msstream/comm/world.hpp>

#include <fmt/core.h>

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace msstream::comm::detail {
namespace {

/// The ranks as processes. Each tells the others by the store whether it has collectives in flight,
/// and the first failure. A process that dies is noticed by the end of its connection.
class ProcessPeers final : public PeersOfProcesses {
 public:
  ProcessPeers(std::shared_ptr<ProcessStore> process,
               World const& world,
               std::string const& name,
               std::chrono::nanoseconds timeout,
               std::source_location made_at,
               LeftRanks left_ranks)
      : left_ranks_(left_ranks),
        rank_(world.rank()),
        size_(world.size()),
        name_(name),
        group_(WorldAccess::group(world)),
        server_(rank_in_group(group_, 0)),
        timeout_(timeout),
        process_(std::move(process)),
        prefix_(fmt::format(
            "{}/{}/", key_of(group_, name), process_->next_generation(key_of(group_, name)))),
        issued_between_two_(static_cast<std::size_t>(world.size())) {
    set_or_fail(fmt::format("made/{}", rank_), "");
    auto const constructor = fmt::format("{}, in which rank {} waits at {}:{}",
                                         entry_of(name),
                                         rank_,
                                         made_at.file_name(),
                                         made_at.line());
    for (int other = 0; other < size_; ++other) {
      static_cast<void>(await(fmt::format("made/{}", other), other, constructor));
    }
  }

  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] int size() const noexcept override { return size_; }
  [[nodiscard]] std::string const& name() const noexcept override { return name_; }

  [[nodiscard]] std::string share(std::string const& value_of_first) override {
    if (rank_ == 0) {
      set_or_fail("shared", value_of_first);
      return value_of_first;
    }
    return await("shared", 0, "the constructor of the communicator");
  }

  [[nodiscard]] std::vector<std::string> exchange(std::string const& own) override {
    // Two keys a rank suffice: a rank begins exchange n + 2 after all ranks have read the texts of
    // exchange n.
    auto const number = fmt::format("{} ", exchanges_);
    auto const key = [turn = exchanges_ % 2](int rank) {
      return fmt::format("exchange/{}/{}", turn, rank);
    };
    ++exchanges_;
    set_or_fail(key(rank_), number + own);
    std::vector<std::string> texts;
    for (int other = 0; other < size_; ++other) {
      auto const why = fmt::format("an exchange between the ranks, in which rank {} waits", rank_);
      texts.push_back(await(key(other), other, why, number).substr(number.size()));
    }
    return texts;
  }

  void announce(Part const& part) override {
    std::lock_guard const guard(mutex_);
    ++issued_;
    latest_ = part;
    if (is_between_two(part.what)) {
      ++issued_between_two_[static_cast<std::size_t>(part.what.peer)];
    } else {
      ++issued_of_all_;
    }
    has_captured_ = has_captured_ || part.is_captured;
  }

  void look(bool is_in_flight) override {
    try {
      tell(is_in_flight);
      if (auto const lost = get("lost")) {
        adopt(*lost);
      }
      if (auto const gone = process_->store().get(TcpStoreServer::kGone)) {
        look_at_gone(*gone);
      }
      bool const looks_for_left = is_in_flight && left_ranks_ == LeftRanks::found_by_looking;
      if (auto const left = looks_for_left ? left_and_needed() : std::nullopt) {
        // Collectives that it has taken part in end soon.
        constexpr int kLooks = 10;
        if (++looks_since_left_ > kLooks) {
          lose(*left, "it has ended its communicator, and a collective in flight needs it");
        }
      } else {
        looks_since_left_ = 0;
      }
      looks_without_store_ = 0;
    } catch (std::runtime_error const& error) {
      // The rank that serves the store may have ended before this one. A transport that finds left
      // ranks notices if it is needed. A group of other ranks goes on.
      constexpr int kLooks = 3;
      bool const is_needed =
          is_in_flight && server_ >= 0 && left_ranks_ == LeftRanks::found_by_looking;
      looks_without_store_ = is_needed ? looks_without_store_ + 1 : 0;
      if (looks_without_store_ == kLooks) {
        fail(server_, error.what());
      }
    }
  }

  void time_out(std::chrono::nanoseconds timeout) override {
    int lost = rank_ == 0 ? 1 : 0;
    std::string others;
    bool is_found = false;
    for (int other = 0; other < size_; ++other) {
      if (other == rank_) {
        continue;
      }
      auto const told = told_by(other);
      bool const is_absent = told.front() == '0';
      if (is_absent && !is_found) {
        lost = other;
        is_found = true;
      }
      others += fmt::format("; rank {}: {}, the latest issued {}",
                            other,
                            is_absent ? "no collective in flight" : "collectives in flight",
                            told.substr(2));
    }
    lose(lost,
         fmt::format("no collective of rank {} has ended within {}, the latest issued {}{}",
                     rank_,
                     timeout_text(timeout),
                     latest_text(),
                     others));
  }

  void lose(int rank, std::string const& why) override {
    auto told = fmt::format("{} {}", rank, why);
    try {
      told = process_->store().set_first(prefix_ + "lost", told);
    } catch (std::runtime_error const&) {  // NOLINT(bugprone-empty-catch): own failure stays
    }
    adopt(told);
  }
  void lose_connection(int rank, Part const& part) override {
    bool has_left = false;
    try {
      has_left = get(fmt::format("left/{}", rank)).has_value();
    } catch (std::runtime_error const&) {  // NOLINT(bugprone-empty-catch): rank 0 is gone, too
    }
    lose(rank,
         has_left ? fmt::format("it has ended its communicator, and rank {} needs it in {}",
                                rank_,
                                to_string(part))
                  : "its process has ended");
  }
  void leave() override {
    set(fmt::format("left/{}", rank_), issued_text());
    static_cast<void>(process_->store().set_first(prefix_ + "left", std::to_string(rank_)));
  }

  [[nodiscard]] bool has_failed() override { return has_failed_.load(std::memory_order_acquire); }
  void rethrow_failure(Part const* issued) override {
    if (!has_failed()) {
      return;
    }
    std::lock_guard const guard(mutex_);
    if (lost_rank_ == -1) {
      throw CollectiveError(fmt::format("{}: {}", title_of(group_, name_), why_));
    }
    auto const in_whole = lost_rank_ == kServer ? 0 : rank_in_whole(group_, lost_rank_);
    auto const lost_rank = lost_rank_ == kServer ? server_ : lost_rank_;
    throw PeerLost(lost_rank,
                   in_whole,
                   fmt::format("{}, rank {} of {}{}: {} is lost: {}",
                               title_of(group_, name_),
                               rank_,
                               size_,
                               issued != nullptr ? ", in " + to_string(*issued) : "",
                               text_of_rank(group_, lost_rank, in_whole),
                               why_));
  }

 private:
  /// In place of a lost rank: the one that serves the store, which may be of another group.
  static constexpr int kServer = -2;

  void set(std::string const& key, std::string const& value) {
    process_->store().set(prefix_ + key, value);
  }
  [[nodiscard]] std::optional<std::string> get(std::string const& key) {
    return process_->store().get(prefix_ + key);
  }
  /// Like set(), for what the other ranks wait for. If the store has ended, fails with the loss of
  /// the rank that serves it.
  void set_or_fail(std::string const& key, std::string const& value) {
    try {
      set(key, value);
    } catch (std::runtime_error const& error) {
      fail_without_store(error);
    }
  }
  /// Fails because the store has ended, and throws the failure, which may be an earlier one.
  [[noreturn]] void fail_without_store(std::runtime_error const& error) {
    fail(kServer, error.what());
    rethrow_failure(nullptr);
    throw error;
  }
  /// Returns a rank that has ended its communicator and that a collective in flight needs, if there
  /// is one: the latest of this rank, or one before it that the other rank has not issued. Ranks
  /// may leave while others go on sending to each other.
  [[nodiscard]] std::optional<int> left_and_needed() {
    auto const first = get("left");
    if (!first) {
      return std::nullopt;
    }
    std::unique_lock lock(mutex_);
    auto const peer =
        latest_ && is_between_two(latest_->what) ? std::optional(latest_->what.peer) : std::nullopt;
    lock.unlock();
    if (!peer) {
      return rank_of(*first);
    }
    for (int other = 0; other < size_; ++other) {
      auto const left = other == rank_ ? std::nullopt : get(fmt::format("left/{}", other));
      if (left && (other == *peer || has_issued_more_than(other, *left))) {
        return other;
      }
    }
    return std::nullopt;
  }
  /// Returns, for each rank, how many collectives that need it this rank has issued. Returns an
  /// empty text after a capture: its replays are not counted, and ranks may replay what others
  /// issue.
  [[nodiscard]] std::string issued_text() {
    std::lock_guard const guard(mutex_);
    std::string text;
    for (auto const between_two : issued_between_two_) {
      text += has_captured_ ? "" : fmt::format("{} ", issued_of_all_ + between_two);
    }
    return text;
  }
  /// Returns whether this rank has issued more collectives that need `other` than `other` has that
  /// need this rank. `left` is the issued_text() of `other`, which has ended its communicator.
  [[nodiscard]] bool has_issued_more_than(int other, std::string const& left) {
    std::istringstream numbers(left);
    std::uint64_t of_other = 0;
    for (int rank = 0; rank <= rank_; ++rank) {
      if (!(numbers >> of_other)) {
        return false;
      }
    }
    std::lock_guard const guard(mutex_);
    auto const own = issued_of_all_ + issued_between_two_[static_cast<std::size_t>(other)];
    return !has_captured_ && own > of_other;
  }

  /// Returns the key's value when it has one that begins with `prefix`. Fails with the loss of
  /// `rank` after the timeout. Looks for failures itself if the prefix is empty, as only the
  /// constructor of the communicator may, which has no watch yet.
  [[nodiscard]] std::string await(std::string const& key,
                                  int rank,
                                  std::string const& why,
                                  std::string_view prefix = {}) {
    auto const deadline = deadline_after(timeout_);
    bool has_left = false;
    try {
      for (;;) {
        if (auto value = get(key); value && value->starts_with(prefix)) {
          return *value;
        }
        rethrow_failure(nullptr);  // after the value: a rank may set it and then fail
        if (has_left) {
          lose(rank,
               "it has ended its communicator, and others wait in an exchange between the ranks");
        }
        if (prefix.empty()) {
          look(false);
        } else {
          look_for_loss();
          // Asked before the next look at the value: a rank may set the value and then leave.
          has_left = get(fmt::format("left/{}", rank)).has_value();
        }
        if (std::chrono::steady_clock::now() > deadline) {
          lose(rank, fmt::format("it did not come within {} to {}", timeout_text(timeout_), why));
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    } catch (PeerLost const&) {
      throw;
    } catch (std::runtime_error const& error) {
      fail_without_store(error);
    }
  }

  /// Returns what a rank has told last of its collectives in flight: see tell().
  [[nodiscard]] std::string told_by(int rank) {
    try {
      return get(fmt::format("flight/{}", rank)).value_or("0 none");
    } catch (std::runtime_error const&) {  // the rank that serves the store has ended
      return rank == server_ ? "0 unknown" : "1 unknown";
    }
  }
  /// Returns the number and text of the latest collective that this rank has issued.
  [[nodiscard]] std::string latest_text() {
    std::lock_guard const guard(mutex_);
    return latest_ ? fmt::format("number {}, {}", issued_, to_string(*latest_)) : "none";
  }
  /// Tells the others about this rank, if anything has changed.
  void tell(bool is_in_flight) {
    auto text = (is_in_flight ? "1 " : "0 ") + latest_text();
    if (text != told_) {
      set(fmt::format("flight/{}", rank_), text);
      told_ = std::move(text);
    }
  }
  /// Fails if another rank has told a failure, or if its process has ended. Other threads may look
  /// meanwhile.
  void look_for_loss() {
    if (auto const lost = get("lost")) {
      adopt(*lost);
    }
    if (auto const gone = process_->store().get(TcpStoreServer::kGone)) {
      look_at_gone(*gone);
    }
  }
  /// Fails if a rank whose process is gone has not ended its communicator before. `gone` has ranks
  /// of the whole world.
  void look_at_gone(std::string const& gone) {
    std::istringstream ranks(gone);
    for (int in_whole = 0; ranks >> in_whole;) {
      int const rank = rank_in_group(group_, in_whole);
      if (rank >= 0 && !get(fmt::format("left/{}", rank))) {
        lose(rank, "its process has ended");
      }
    }
  }

  [[nodiscard]] static int rank_of(std::string_view text) {
    int rank = 0;
    std::from_chars(text.data(), text.data() + text.size(), rank);
    return rank;
  }
  /// Takes over a failure, told as the lost rank and the reason.
  void adopt(std::string const& told) {
    auto const space = told.find(' ');
    fail(rank_of(told), space == std::string::npos ? std::string() : told.substr(space + 1));
  }
  void fail(int lost_rank, std::string why) {
    std::lock_guard const guard(mutex_);
    if (!has_failed_.load(std::memory_order_relaxed)) {
      lost_rank_ = lost_rank;
      why_ = std::move(why);
      has_failed_.store(true, std::memory_order_release);
    }
  }

  LeftRanks const left_ranks_;
  int const rank_;
  int const size_;
  std::string const name_;
  SharedGroup const group_;
  int const server_;  ///< the rank that serves the store; -1 if it is not of the group
  std::chrono::nanoseconds const timeout_;
  std::shared_ptr<ProcessStore> const process_;
  std::string const prefix_;  ///< of the keys of this communicator

  std::uint64_t exchanges_ = 0;  ///< used by the thread that exchanges alone

  // Used by the thread that looks alone.
  std::string told_;
  int looks_since_left_ = 0;
  int looks_without_store_ = 0;

  std::mutex mutex_;  ///< protects the members below
  std::atomic<bool> has_failed_{false};
  int lost_rank_ = -1;
  std::string why_;
  std::uint64_t issued_ = 0;
  std::optional<Part> latest_;
  std::uint64_t issued_of_all_ = 0;                ///< collectives of all ranks
  std::vector<std::uint64_t> issued_between_two_;  ///< those with each other rank
  bool has_captured_ = false;                      ///< whether any were issued in a capture
};

}  // namespace

std::shared_ptr<PeersOfProcesses> make_process_peers(std::shared_ptr<ProcessStore> process,
                                                     World const& world,
                                                     std::string const& name,
                                                     std::chrono::nanoseconds timeout,
                                                     std::source_location made_at,
                                                     LeftRanks left_ranks) {
  return std::make_shared<ProcessPeers>(
      std::move(process), world, name, timeout, made_at, left_ranks);
}

std::shared_ptr<ProcessStore> store_of_this_process(World const& world,
                                                    std::string const& name,
                                                    std::chrono::nanoseconds timeout) {
  try {
    return ProcessStore::of_this_process(world, timeout);
  } catch (std::runtime_error const& error) {
    throw PeerLost(0,
                   fmt::format("{}, rank {} of {}: rank 0 is lost: {}",
                               title_of(nullptr, name),
                               world.rank(),
                               world.size(),
                               error.what()));
  }
}

}  // namespace msstream::comm::detail
