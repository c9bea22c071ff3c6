// SPDX-License-Identifier: Apache-2.0
#include "training/float16_options.hpp"

#include "cli/option_value.hpp"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstddef>
#include <iostream>
#include <stdexcept>
#include <utility>

namespace msstream::training {

namespace {

constexpr cli::Range<float> kScales{0x1p-100F, 0x1p100F};

char const* name_of(NonFiniteLocator<detail::AnyRuntime>::Phase phase) {
  using Phase = NonFiniteLocator<detail::AnyRuntime>::Phase;
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
    case Phase::input:
      break;
  }
  return "input";
}

}  // namespace

void add_options(cli::Options& options, Float16Options& chosen) {
  options.add("--loss-scale",
              chosen.loss_scale,
              "of --precision fp16. dynamic: halved by each overflow, doubled by 2,000 steps "
              "without one; a number: always that",
              "dynamic, or a number");
  options.add_flag("--find-overflow",
                   chosen.find_overflow,
                   "name the layer in which the first overflow of --precision fp16 was; slower");
}

std::optional<LossScaleOptions> loss_scale_of(Float16Options const& chosen, Precision precision) {
  auto const scale = cli::parse_option(chosen.loss_scale, kScales);
  if (chosen.has_static_scale() && !scale) {
    throw cli::UsageError(fmt::format(
        "--loss-scale {}: expected dynamic, or a number from 2^-100 to 2^100", chosen.loss_scale));
  }
  if (precision != Precision::fp16) {
    for (auto const& [is_chosen, option] : {std::pair(chosen.has_static_scale(), "--loss-scale"),
                                            std::pair(chosen.find_overflow, "--find-overflow")}) {
      if (is_chosen) {
        throw cli::UsageError(fmt::format("{} goes with --precision fp16", option));
      }
    }
    return std::nullopt;
  }
  return scale ? LossScaleOptions::fixed(*scale) : LossScaleOptions{};
}

nlohmann::ordered_json describe(Float16Options const& chosen) {
  return {{"loss_scale", chosen.loss_scale}, {"find_overflow", chosen.find_overflow}};
}

std::vector<std::string> not_resumed(Float16Options const& chosen) {
  return chosen.has_static_scale() ? std::vector<std::string>{"optimizer/loss_scale"}
                                   : std::vector<std::string>();
}

nlohmann::ordered_json first_overflow(NonFiniteLocator<detail::AnyRuntime> const& locator) {
  auto const found = locator.first();
  if (!found) {
    return nullptr;
  }
  nlohmann::ordered_json described = {
      {"layer", found->layer}, {"phase", name_of(found->phase)}, {"operation", found->operation}};
  try {
    locator.require_finite();
  } catch (std::runtime_error const& error) {
    described["what"] = error.what();
  }
  return described;
}

nlohmann::ordered_json first_overflow_of_ranks(std::vector<std::string> const& texts) {
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    auto found = nlohmann::ordered_json::parse(texts[rank]);
    if (!found.is_null()) {
      if (texts.size() > 1) {
        found["rank"] = rank;
      }
      return found;
    }
  }
  return nullptr;
}

std::string overflow_of_rank(NonFiniteLocator<detail::AnyRuntime> const* locator) {
  auto const found = locator == nullptr ? nullptr : first_overflow(*locator);
  if (found.is_null()) {
    return {};
  }
  auto line = overflow_line(found);
  line.pop_back();
  return line;
}

void print_overflow_of_test(std::string_view message) {
  std::cerr << fmt::format("warning: no test metric, because float16 overflowed: {}\n", message);
}

std::string skipped_warning(Float16Options const& chosen,
                            std::int64_t skipped,
                            std::int64_t steps) {
  if (2 * skipped <= steps) {
    return {};
  }
  return fmt::format(
      "warning: {} of {} steps were skipped, because float16 overflowed; try {}--precision bf16\n",
      skipped,
      steps,
      chosen.has_static_scale()
          ? fmt::format("a smaller --loss-scale than {}, or ", chosen.loss_scale)
          : "");
}

std::string overflow_line(nlohmann::ordered_json const& finding) {
  if (finding.is_null()) {
    return "no overflow in any layer\n";
  }
  auto const rank = finding.find("rank");
  return fmt::format("first overflow{}: {}\n",
                     rank == finding.end() ? "" : fmt::format(" of rank {}", rank->get<int>()),
                     finding.at("what").get<std::string>());
}

}  // namespace msstream::training
