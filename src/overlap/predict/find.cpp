// SPDX-License-Identifier: Apache-2.0
#include "overlap/find/find.hpp"

#include "overlap/find/collectives.hpp"
#include "overlap/find/program.hpp"
#include "overlap/predict/explain.hpp"
#include "overlap/predict/late_ranks.hpp"
#include "overlap/predict/lone_rank.hpp"
#include "overlap/predict/turns.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

namespace msstream::overlap {

Report find(Recording const& recording, FindOptions const& options) {
  Program const program(recording);
  Collectives const collectives(program);
  auto report = explain(program, collectives, options);
  note_lone_rank(report, program, collectives);
  return report;
}

std::vector<Report> find(std::span<Recording const> ranks, FindOptions const& options) {
  std::vector<Program> programs;
  programs.reserve(ranks.size());
  std::vector<Collectives> collectives;
  collectives.reserve(ranks.size());
  for (auto const& recording : ranks) {
    programs.emplace_back(recording);
    collectives.emplace_back(programs.back());
  }
  auto const doubts = align(ranks, collectives);
  find_turns(programs);
  std::vector<Report> reports;
  reports.reserve(ranks.size());
  for (std::size_t rank = 0; rank < programs.size(); ++rank) {
    auto of_rank = options;
    if (!options.windows.empty()) {
      of_rank.window = options.windows.at(rank);
    }
    reports.push_back(explain(programs[rank], collectives[rank], of_rank));
    std::ranges::copy(doubts, std::back_inserter(reports.back().notes));
  }
  name_late_ranks(reports, ranks, collectives);
  return reports;
}

}  // namespace msstream::overlap
