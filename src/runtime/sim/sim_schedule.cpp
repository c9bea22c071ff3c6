// SPDX-License-Identifier: Apache-2.0
#include "runtime/sim/sim_schedule.hpp"

#include <msstream/base/detail/env.hpp>
#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <charconv>
#include <system_error>
#include <utility>

namespace msstream::sim {

namespace {

/// The random number generator SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
/// Generators, 2014).
class RandomNumbers {
 public:
  explicit RandomNumbers(std::uint64_t seed) : state_(seed) {}

  static std::uint64_t mixed(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  std::uint64_t next() noexcept { return mixed(state_ += 0x9E3779B97F4A7C15U); }
  std::size_t below(std::size_t bound) noexcept {
    return static_cast<std::size_t>(((next() >> 32U) * bound) >> 32U);
  }

 private:
  std::uint64_t state_;
};

/// A schedule that chooses actions at random, in one of two ways that the seed selects. Uniform
/// choices find errors that many orders show. Priorities of streams that change now and then find
/// errors that only a few orders show, such as one stream far ahead of all others (after Burckhardt
/// et al.: A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010). The seed
/// also determines how often the device runs actions during calls that only issue work.
class RandomSchedule final : public Schedule {
 public:
  explicit RandomSchedule(std::uint64_t seed)
      : random_(seed),
        uniform_(random_.below(2) == 0),
        moves_in_eight_(std::size_t{1} << random_.below(4)),
        priorities_(random_.next()) {
    moves_in_eight_ = random_.below(4) == 0 ? 0 : moves_in_eight_;
  }

  std::size_t choose(Decision const& decision) override {
    if (uniform_) {
      return random_.below(decision.count());
    }
    if (random_.below(kChangesOneIn) == 0) {
      priorities_ = random_.next();
    }
    std::size_t best = 0;
    std::uint64_t highest = 0;
    for (std::size_t i = 0; i < decision.count(); ++i) {
      std::uint64_t const who =
          i < decision.streams.size() ? decision.streams[i].stream : std::uint64_t{1} << 32U;
      std::uint64_t const priority = RandomNumbers::mixed(priorities_ + who);
      if (priority >= highest) {
        highest = priority;
        best = i;
      }
    }
    return best;
  }
  bool moves_while_issuing() override { return random_.below(8) < moves_in_eight_; }

 private:
  static constexpr std::size_t kChangesOneIn = 8;

  RandomNumbers random_;
  bool uniform_;
  std::size_t moves_in_eight_;
  std::uint64_t priorities_;
};

class ReplaySchedule final : public Schedule {
 public:
  explicit ReplaySchedule(std::vector<std::uint32_t> choices) : choices_(std::move(choices)) {}

  std::size_t choose(Decision const& decision) override {
    if (next_ == choices_.size()) {
      return 0;
    }
    auto const chosen = choices_[next_++];
    require(
        chosen < decision.count(),
        "replay: choice {} is {}, but only {} things can happen; it was not made for this program",
        next_,
        chosen,
        decision.count());
    return chosen;
  }

 private:
  std::vector<std::uint32_t> choices_;
  std::size_t next_ = 0;
};

class ByTimeSchedule final : public Schedule {
 public:
  explicit ByTimeSchedule(std::uint64_t seed) : random_(seed) {}

  std::size_t choose(Decision const& decision) override { return random_.below(decision.count()); }
  [[nodiscard]] bool by_time() const noexcept override { return true; }

 private:
  RandomNumbers random_;
};

constexpr std::string_view kRandom = "random:";
constexpr std::string_view kReplay = "replay:";
constexpr std::string_view kByTime = "by_time:";

/// Parses the number at the beginning of `written`, removes it from `written`, and stores it in
/// `number`. Returns false if there is no number.
template <class Number>
bool take_number(std::string_view& written, Number& number) {
  auto const [end, error] =
      std::from_chars(written.data(), written.data() + written.size(), number);
  written.remove_prefix(static_cast<std::size_t>(end - written.data()));
  return error == std::errc{};
}

}  // namespace

ScheduleFactory random(std::uint64_t seed) {
  return [seed] { return std::make_unique<RandomSchedule>(seed); };
}

ScheduleFactory replay(std::vector<std::uint32_t> choices) {
  return [choices = std::move(choices)] { return std::make_unique<ReplaySchedule>(choices); };
}

ScheduleFactory by_time(std::uint64_t seed) {
  return [seed] { return std::make_unique<ByTimeSchedule>(seed); };
}

ScheduleFactory schedule_from(std::string_view written) {
  auto rest = written;
  std::uint64_t seed = 0;
  if (written.starts_with(kRandom)) {
    rest.remove_prefix(kRandom.size());
    if (take_number(rest, seed) && rest.empty()) {
      return random(seed);
    }
  } else if (written.starts_with(kByTime)) {
    rest.remove_prefix(kByTime.size());
    if (take_number(rest, seed) && rest.empty()) {
      return by_time(seed);
    }
  } else if (written.starts_with(kReplay)) {
    rest.remove_prefix(kReplay.size());
    std::vector<std::uint32_t> choices;
    bool good = true;
    while (good && !rest.empty()) {
      good = take_number(rest, choices.emplace_back()) &&
             (rest.empty() || (rest.front() == '.' && rest.size() > 1));
      rest.remove_prefix(rest.empty() ? 0 : 1);
    }
    if (good) {
      return replay(std::move(choices));
    }
  }
  throw std::invalid_argument(fmt::format(
      "'{}' is no schedule: expected random:SEED, by_time:SEED or replay:0.2.1", written));
}

ScheduleFactory schedule_from_environment() {
  auto const written = env::value_of("MSSTREAM_SIM_SCHEDULE");
  if (written.empty()) {
    return random(1);
  }
  try {
    return schedule_from(written);
  } catch (std::invalid_argument const& error) {
    throw std::invalid_argument(fmt::format("MSSTREAM_SIM_SCHEDULE: {}", error.what()));
  }
}

std::string written_random(std::uint64_t seed) {
  return fmt::format("{}{}", kRandom, seed);
}

std::string written_replay(std::span<std::uint32_t const> choices) {
  std::string out(kReplay);
  for (std::size_t i = 0; i < choices.size(); ++i) {
    out += (i == 0 ? "" : ".") + std::to_string(choices[i]);
  }
  return out;
}

}  // namespace msstream::sim
