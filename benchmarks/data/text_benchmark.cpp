// SPDX-License-Identifier: Apache-2.0
// Measures how fast one thread turns generated Criteo TSV, a label, 13 numbers and 26 hexadecimal
// words in a line, into columns, compared with a copy of the same bytes in memory. The counter
// `copy_rate_divided` is the rate of the copy divided by that of the reader.
#include "datasets/generated.hpp"
#include "suite.hpp"

#include <msstream/data/byte_source.hpp>
#include <msstream/data/loader.hpp>
#include <msstream/data/text_reader.hpp>

#include <fmt/core.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace benchmarks {

namespace {

constexpr std::int64_t kRows = 200'000;

/// Returns lines in the form of Criteo's data: counts with a long tail, of which a fifth is
/// missing, and words of 8 hexadecimal digits, of which a tenth is missing.
std::string criteo_tsv(std::int64_t rows) {
  ms::datasets::GeneratedData const data({.rows = rows, .seed = 1});
  auto const chunk = data.chunk(0, rows);
  auto const columns = ms::datasets::click_columns(data.schema());
  auto const fields = static_cast<std::size_t>(columns.continuous);
  auto const& values = chunk.floats(ms::datasets::kContinuous);
  std::string text;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    text += chunk.floats("Label")[row] > 0 ? "1" : "0";
    for (std::size_t i = 0; i < fields; ++i) {
      auto const value = values[row * fields + i];
      text += '\t';
      if (std::fmod(std::abs(value) * 1'000, 5) >= 1) {
        text += fmt::format("{}", static_cast<std::int64_t>(std::exp(2 + 2 * value)) - 1);
      }
    }
    for (std::size_t i = 0; i < columns.categorical.size(); ++i) {
      auto const key = static_cast<std::uint64_t>(chunk.ints(i)[row]);
      text += key % 10 == 0 ? "\t" : fmt::format("\t{:08x}", key >> 32U);
    }
    text += '\n';
  }
  return text;
}

class MemoryBytes final : public ms::data::ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes) : rest_(bytes) {}
  std::size_t read(char* out, std::size_t bytes) override {
    auto const count = rest_.copy(out, bytes);
    rest_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view rest_;
};

ms::data::TextOptions criteo_options(bool joined) {
  using ms::data::ColumnType;
  ms::data::TextOptions options{.columns = {{"Label"}}, .header = false, .names = {"Label"}};
  auto const numbers = ms::data::numbered_names("I", 1, 13);
  auto const words = ms::data::numbered_names("C", 1, 26);
  options.names.insert(options.names.end(), numbers.begin(), numbers.end());
  options.names.insert(options.names.end(), words.begin(), words.end());
  options.columns.push_back({.name = "dense", .fields = numbers, .if_empty = 0.0});
  if (joined) {
    options.columns.push_back({.name = "ids", .type = ColumnType::hashed, .fields = words});
    return options;
  }
  for (auto const& word : words) {
    options.columns.push_back({.name = word, .type = ColumnType::hashed, .buckets = 1'000'000});
  }
  return options;
}

std::string const& text() {
  static std::string const made = criteo_tsv(kRows);
  return made;
}

/// A clock that a measurement uses. That of the thread leaves out the time in which others had its
/// processor, so that a busy machine gives the same rates.
enum class Clock : int { thread = CLOCK_THREAD_CPUTIME_ID, wall = CLOCK_MONOTONIC };

double now(Clock clock) {
  timespec time{};
  clock_gettime(static_cast<clockid_t>(clock), &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
double seconds_of(Clock clock, Work&& work) {
  auto const begin = now(clock);
  work();
  return now(clock) - begin;
}

/// Runs `read`, which reads all of text(), beside a copy of text(), and reports both rates.
template <class Read>
void compare(benchmark::State& state, Clock clock, Read&& read) {
  std::string copy(text().size(), ' ');
  double copying = 0;
  double reading = 0;
  for (auto _ : state) {
    copying += seconds_of(clock, [&] {
      std::memcpy(copy.data(), text().data(), text().size());
      benchmark::DoNotOptimize(copy.data());
      benchmark::ClobberMemory();
    });
    auto const taken = seconds_of(clock, read);
    reading += taken;
    state.SetIterationTime(taken);
  }
  auto const bytes = static_cast<double>(text().size()) * static_cast<double>(state.iterations());
  state.counters["copy_GB_per_s"] = bytes / copying / 1e9;
  state.counters["read_GB_per_s"] = bytes / reading / 1e9;
  state.counters["rows_per_s"] =
      static_cast<double>(kRows) * static_cast<double>(state.iterations()) / reading;
  state.counters["copy_rate_divided"] = reading / copying;
}

ms::data::TextFile file() {
  return {"generated", [] { return std::make_unique<MemoryBytes>(text()); }};
}

void check_rows(benchmark::State& state, std::int64_t rows) {
  if (rows != kRows) {
    state.SkipWithError("rows are missing");
  }
}

}  // namespace

void add_host_benchmarks() {
  for (bool const joined : {true, false}) {
    add(fmt::format("text/host/parse/{}", joined ? "keys" : "buckets"), 10, [=](auto& state) {
      compare(state, Clock::thread, [&] {
        ms::data::TsvReader reader(file(), criteo_options(joined));
        ms::data::Chunk chunk(reader.schema());
        std::int64_t rows = 0;
        for (; reader.next(chunk); chunk.clear()) {
          rows += chunk.rows();
        }
        check_rows(state, rows);
      });
    });
  }
  for (int const threads : {1, 2, 4}) {
    for (std::int64_t const window : {0, 65'536}) {
      add(fmt::format("text/host/load/shuffle:{}/threads:{}", window, threads),
          5,
          [=](auto& state) {
            compare(state, Clock::wall, [&] {
              ms::data::TsvReader reader(file(), criteo_options(false));
              ms::data::Loader loader(
                  reader, {.batch_size = 4'096, .shuffle_rows = window, .threads = threads});
              std::int64_t rows = 0;
              while (auto const batch = loader.next()) {
                rows += batch->rows();
              }
              check_rows(state, rows);
            });
          });
    }
  }
}

void add_cuda_benchmarks() {
  add_host_benchmarks();
}

}  // namespace benchmarks
