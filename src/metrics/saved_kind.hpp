// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <msstream/base/detail/host_state.hpp>
#include <msstream/base/detail/require.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace msstream::metrics::detail {

/// The kind of a metric and its options in a checkpoint, as text of uint8. A program whose metric
/// is another one refuses the file.
class SavedKind final : public msstream::detail::HostState {
 public:
  SavedKind(std::string name, std::string kind) : name_(std::move(name)), kind_(std::move(kind)) {}

  [[nodiscard]] std::vector<Array> arrays() const override {
    auto const text = std::make_shared<std::string>(kind_);
    text->append((8 - text->size() % 8) % 8, ' ');  // the arrays of the host are multiples of 8
    return {{name_,
             DType::uint8,
             {static_cast<std::int64_t>(text->size())},
             std::as_bytes(std::span(*text)),
             text}};
  }
  [[nodiscard]] std::string first_name() const override { return name_; }
  [[nodiscard]] std::string prefix() const override { return name_; }

  [[nodiscard]] std::function<void()> read(Find const& find) override {
    std::string text;
    auto const found = find(name_);
    for (auto const byte : found ? found->bytes : std::vector<std::byte>()) {
      text += static_cast<char>(byte);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    require(found && found->dtype == DType::uint8 && text == kind_,
            "the metric of the file is {}, that of the program is {}",
            text.size() <= kLongestKind ? text : "none that is known",
            kind_);
    return [] {};
  }

 private:
  static constexpr std::size_t kLongestKind = 160;

  std::string name_;
  std::string kind_;
};

}  // namespace msstream::metrics::detail
