// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/error.hpp>
#include <msstream/serve/answer.hpp>
#include <msstream/serve/query.hpp>

#include <cstdint>
#include <future>
#include <utility>
#include <variant>

namespace msstream::serve {

/// Delivers the outcome of a query, to a promise or to a callback.
class Reply {
 public:
  Reply() = default;
  explicit Reply(std::promise<Answer> promise) : to_(std::move(promise)) {}
  /// Delivers the outcome by a callback. Throws std::invalid_argument if the callback is null.
  explicit Reply(Callback callback) {
    require(callback != nullptr, "serve: the callback is null");
    to_ = std::move(callback);
  }

  /// Delivers the outcome. Must be called once. Returns false if the callback threw an exception.
  bool give(Outcome outcome) noexcept {
    try {
      if (auto* const callback = std::get_if<Callback>(&to_)) {
        (*callback)(outcome);
      } else if (auto* const promise = std::get_if<std::promise<Answer>>(&to_)) {
        if (outcome.has_answer()) {
          promise->set_value(outcome.take_answer());
        } else {
          promise->set_exception(outcome.error());
        }
      }
      to_ = std::monostate();
      return true;
    } catch (...) {
      to_ = std::monostate();
      return false;
    }
  }

 private:
  std::variant<std::monostate, std::promise<Answer>, Callback> to_;
};

/// The data of a query that the pool keeps, apart from its input values.
struct Ticket {
  Reply reply = {};
  std::int64_t rows = 0;
  /// The number of rows that the query takes up in a bucket: its rows, or more if its lists need
  /// the room of further rows.
  std::int64_t rows_needed = 0;
  Clock::time_point admitted_at = {};
};

}  // namespace msstream::serve
