// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "step/optimizer/micro_batches.hpp"

#include <msstream/base/detail/host_state.hpp>
#include <msstream/base/detail/require.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::detail {

/// The names of an optimizer's kinds in a checkpoint, as text of uint8, which a program with other
/// kinds refuses. Its moments mean nothing to another rule. A file that lacks the text is loaded.
class SavedRule final : public HostState {
 public:
  SavedRule(std::string name, std::shared_ptr<MicroBatches> micro_batches)
      : name_(std::move(name)), micro_batches_(std::move(micro_batches)) {}

  [[nodiscard]] std::vector<Array> arrays() const override {
    auto const text = std::make_shared<std::string>(name_);
    text->append((8 - text->size() % 8) % 8, ' ');  // the arrays of the host are multiples of 8
    return {{first_name(),
             DType::uint8,
             {static_cast<std::int64_t>(text->size())},
             std::as_bytes(std::span(*text)),
             text}};
  }
  [[nodiscard]] std::string first_name() const override { return "optimizer/rule"; }
  [[nodiscard]] std::string prefix() const override { return first_name(); }
  [[nodiscard]] bool is_optional() const override { return true; }

  [[nodiscard]] std::function<void()> read(Find const& find) override {
    if (auto const found = find(first_name())) {
      std::string text;
      for (auto const byte : found->bytes) {
        text += static_cast<char>(byte);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      require(found->dtype == DType::uint8 && text == name_,
              "the optimizer of the file is {}, that of the program is {}",
              text.size() <= kLongestName ? text : "none that is known",
              name_);
    }
    return [micro_batches = micro_batches_] { micro_batches->begin(); };
  }

 private:
  static constexpr std::size_t kLongestName = 64;

  std::string name_;
  std::shared_ptr<MicroBatches> micro_batches_;
};

}  // namespace msstream::detail
