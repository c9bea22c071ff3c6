// SPDX-License-Identifier: Apache-2.0
#include "training/same_run.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/ranges.h>

namespace msstream::training {

std::string text_of(std::vector<std::int64_t> const& widths) {
  return fmt::format("{}", fmt::join(widths, ","));
}

data::LoaderPosition position_in_same_run(std::string const& path,
                                          std::string_view program,
                                          checkpoint::Metadata const& expected) {
  checkpoint::SafetensorsFile const file(path);
  auto const& saved = file.metadata();
  auto const text = [&](std::string const& name) -> std::string const& {
    auto const found = saved.find(name);
    require(found != saved.end(),
            "{}: not a model of {}: metadata '{}' is missing",
            path,
            program,
            name);
    return found->second;
  };
  require(text("format") == expected.at("format"),
          "{}: has the format '{}'; expected '{}': train the model anew",
          path,
          text("format"),
          expected.at("format"));
  for (auto const& [name, mine] : expected) {
    require(text(name) == mine,
            "{}: was trained with {} = {}, this run has {}",
            path,
            name,
            text(name),
            mine);
  }
  return data::LoaderPosition::parse(text("position"));
}

void require_step_within(std::string const& path, std::int64_t step, std::int64_t last_step) {
  require(step <= last_step,
          "{}: is at step {}, beyond the {} that this run is for; raise --epochs or --steps",
          path,
          step,
          last_step);
}

}  // namespace msstream::training
