// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/same_library.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::serve {

struct Answer {
  /// The outputs of the model for the query, of shape [rows, outputs_per_row].
  std::vector<float> values = {};
  /// The version of the model that computed the whole answer: 1 for the pool's first model, and 1
  /// more after each swap().
  std::uint64_t version = 0;
  int replica = 0;  ///< number of the replica that computed it, from 0
  /// The time from submit() until the query's replica began to work on it: until the query was
  /// launched or, if the replica still had another launch in flight, until that launch was seen to
  /// be complete.
  std::chrono::nanoseconds queued{0};
  /// The time from when the replica began to work on the query until the query was seen to be
  /// complete. `queued` plus `on_device` is the query's latency in the pool.
  std::chrono::nanoseconds on_device{0};
};

/// Reports that the pool did not accept a query, or could not run one that it had accepted.
class Refused : public std::runtime_error {
 public:
  /// The queue was full, the pool was being drained, or every replica had failed.
  enum class Reason : std::uint8_t { queue_full, draining, no_replica_left };
  /// Makes the error with the reason and a message.
  Refused(Reason reason, std::string const& message)
      : std::runtime_error(message), reason_(reason) {}

  /// Returns why the pool did not run the query.
  [[nodiscard]] Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

/// Reports that a query's deadline passed before the query could be launched, so that it was not
/// run.
class DeadlineExceeded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The result of a query: an answer, or the reason why there is none.
class Outcome {
 public:
  /// Makes the result of a query that has an answer, or of one that ended with an error.
  explicit Outcome(Answer answer) noexcept : ended_(std::move(answer)) {}
  explicit Outcome(std::exception_ptr error) noexcept : ended_(std::move(error)) {}

  /// Returns whether there is an answer, and not an error.
  [[nodiscard]] bool has_answer() const noexcept { return std::holds_alternative<Answer>(ended_); }
  /// Returns the answer. Throws error() if there is none.
  [[nodiscard]] Answer const& answer() const {
    if (!has_answer()) {
      std::rethrow_exception(std::get<std::exception_ptr>(ended_));
    }
    return std::get<Answer>(ended_);
  }
  /// Returns the answer, to be moved from. The outcome must have an answer.
  [[nodiscard]] Answer&& take_answer() { return std::move(std::get<Answer>(ended_)); }
  /// Returns the reason why there is no answer, or null if there is one.
  [[nodiscard]] std::exception_ptr error() const noexcept {
    auto const* const error = std::get_if<std::exception_ptr>(&ended_);
    return error == nullptr ? nullptr : *error;
  }

 private:
  std::variant<Answer, std::exception_ptr> ended_;
};

/// A function that receives the outcome of a query, once.
using Callback = std::function<void(Outcome const&)>;

}  // namespace msstream::serve
