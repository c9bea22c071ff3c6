// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace msstream::serve {

struct Answer {
  /// [rows, outputs_per_row].
  std::vector<float> values = {};
  /// Of the model that computed all of it: 1 for the pool's first, one more for each swap().
  std::uint64_t version = 0;
  int replica = 0;
  /// From submit() until its replica began with it: until it was launched, or, where the replica
  /// still had another launch in flight, until that was seen to be over.
  std::chrono::nanoseconds queued{0};
  /// From then on until it was seen to be over. Both together are its latency in the pool.
  std::chrono::nanoseconds on_device{0};
};

/// The pool did not take a query, or could not run one that it had taken.
class Refused : public std::runtime_error {
 public:
  enum class Reason : std::uint8_t { queue_full, draining, no_replica_left };
  Refused(Reason reason, std::string const& message)
      : std::runtime_error(message), reason_(reason) {}

  [[nodiscard]] Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

/// A query's deadline passed before it could be launched. It was not run.
class DeadlineExceeded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How a query ended: an answer, or why there is none.
class Outcome {
 public:
  explicit Outcome(Answer answer) noexcept : ended_(std::move(answer)) {}
  explicit Outcome(std::exception_ptr error) noexcept : ended_(std::move(error)) {}

  [[nodiscard]] bool has_answer() const noexcept { return std::holds_alternative<Answer>(ended_); }
  /// Throws error() if there is no answer.
  [[nodiscard]] Answer const& answer() const {
    if (!has_answer()) {
      std::rethrow_exception(std::get<std::exception_ptr>(ended_));
    }
    return std::get<Answer>(ended_);
  }
  /// The answer, to keep; there must be one.
  [[nodiscard]] Answer&& take_answer() { return std::move(std::get<Answer>(ended_)); }
  /// Null where there is an answer.
  [[nodiscard]] std::exception_ptr error() const noexcept {
    auto const* const error = std::get_if<std::exception_ptr>(&ended_);
    return error == nullptr ? nullptr : *error;
  }

 private:
  std::variant<Answer, std::exception_ptr> ended_;
};

}  // namespace msstream::serve
