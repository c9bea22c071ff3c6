// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"

#include <msstream/base/output_file.hpp>
#include <msstream/step/table_plan.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace msstream::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

[[nodiscard]] std::vector<TableSpec> planned_specs() {
  return {{.name = "country", .rows = 200, .width = 16},
          {.name = "user", .rows = 1'000'000, .width = 16, .hotness = 1},
          {.name = "item", .rows = 100'000, .width = 16, .hotness = 20},
          {.name = "shop", .rows = 90'000, .width = 16, .hotness = 2},
          {.name = "word", .rows = 80'000, .width = 16, .hotness = 3},
          {.name = "city", .rows = 70'000, .width = 16, .hotness = 2}};
}

TEST(PlanTables, small_tables_are_replicated_large_ones_divided_and_others_balanced) {
  auto const specs = planned_specs();
  auto const plan = plan_tables(specs, 2);
  EXPECT_EQ(plan.ranks, 2);
  std::vector<TablePlacement> const expected{{"country", Sharding::replicated, {}},
                                             {"user", Sharding::row_wise, {0, 1}},
                                             {"item", Sharding::row_wise, {0, 1}},
                                             {"shop", Sharding::table_wise, {1}},
                                             {"word", Sharding::table_wise, {0}},
                                             {"city", Sharding::table_wise, {1}}};
  EXPECT_EQ(plan.tables, expected);
  EXPECT_EQ(plan_tables(specs, 2), plan);
}

TEST(PlanTables, wide_tables_and_maxima_are_divided_by_columns) {
  std::vector<TableSpec> specs{{.name = "wide", .rows = 100'000, .width = 128},
                               {.name = "narrow", .rows = 100'000, .width = 8},
                               {.name = "largest", .rows = 4, .width = 3}};
  specs[2].pooling = ops::Pooling::max;
  auto const plan = plan_tables(specs, 4);
  EXPECT_EQ(plan.tables[0], (TablePlacement{"wide", Sharding::column_wise, {0, 1, 2, 3}}));
  EXPECT_EQ(plan.tables[1].sharding, Sharding::table_wise);
  EXPECT_EQ(plan.tables[2].sharding, Sharding::table_wise) << "the maximum is not replicated";
  specs[0].pooling = ops::Pooling::max;
  specs[0].width = 3;
  EXPECT_EQ(plan_tables(specs, 4).tables[0],
            (TablePlacement{"wide", Sharding::column_wise, {0, 1, 2}}));
  EXPECT_EQ(plan_tables(specs, 1).tables[0], (TablePlacement{"wide", Sharding::table_wise, {0}}));
}

TEST(PlanTables, ranks_have_about_equal_bytes) {
  std::vector<TableSpec> specs;
  for (int t = 0; t < 40; ++t) {
    specs.push_back({.name = std::to_string(t), .rows = 20'000 + 997 * (t * 7 % 40), .width = 8});
  }
  auto const plan = plan_tables(specs, 4);
  std::vector<std::int64_t> rows(4);
  std::int64_t all = 0;
  for (std::size_t t = 0; t < specs.size(); ++t) {
    ASSERT_EQ(plan.tables[t].sharding, Sharding::table_wise);
    rows[static_cast<std::size_t>(plan.tables[t].ranks[0])] += specs[t].rows;
    all += specs[t].rows;
  }
  for (auto const of_rank : rows) {
    EXPECT_LE(of_rank, all / 4 + all / 40);
  }
}

TEST(PlanTables, a_limit_of_bytes_divides_tables_or_is_told) {
  std::vector<TableSpec> const specs{{.name = "a", .rows = 1000, .width = 4},
                                     {.name = "b", .rows = 1000, .width = 4}};
  PlanTablesOptions options{.most_bytes_per_rank = 16'000, .replicated_bytes = 0};
  EXPECT_EQ(plan_tables(specs, 2, options).tables[0].sharding, Sharding::table_wise);
  options.state_bytes_per_row = 4;
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)plan_tables(specs, 2, options); }),
              AllOf(HasSubstr("rank 0 of 2 has 20000 bytes of tables; expected at most 16000"),
                    HasSubstr("its largest part is that of 'a', row_wise, with 10000")));
  options.most_bytes_per_rank = 20'000;
  options.state_bytes_per_element = 0;
  EXPECT_EQ(plan_tables(specs, 2, options).tables[1].sharding, Sharding::table_wise);
}

TEST(PlanTables, placements_may_be_given) {
  auto const specs = planned_specs();
  PlanTablesOptions const options{
      .fixed = {{"word", Sharding::row_wise, {1, 0}}, {"country", Sharding::table_wise, {1}}}};
  auto plan = plan_tables(specs, 2, options);
  EXPECT_EQ(plan.tables[4], options.fixed[0]);
  EXPECT_EQ(plan.tables[0], options.fixed[1]);
  plan.place({"city", Sharding::replicated, {}});
  EXPECT_EQ(plan.tables[5].sharding, Sharding::replicated);
  EXPECT_THAT(message_of<std::invalid_argument>([&] { plan.place({"town"}); }),
              HasSubstr("the plan has no table 'town'"));
  auto const refused = [&](std::vector<TablePlacement> const& fixed) {
    return message_of<std::invalid_argument>(
        [&] { (void)plan_tables(specs, 2, {.fixed = fixed}); });
  };
  EXPECT_THAT(refused({{"town", Sharding::replicated, {}}}), HasSubstr("'town', no table"));
  EXPECT_THAT(refused({{"city", Sharding::table_wise, {2}}}),
              HasSubstr("table 'city', table_wise: rank 2"));
  EXPECT_THAT(refused({{"city", Sharding::table_wise, {1}}, {"city", Sharding::replicated, {}}}),
              HasSubstr("table 'city' has two fixed placements"));
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)plan_tables(specs, 0); }),
              HasSubstr("0 ranks; expected at least 1"));
}

TEST(PlanTables, plans_are_described_for_people) {
  std::vector<TableSpec> const specs{{.name = "user", .rows = 1000, .width = 4},
                                     {.name = "country", .rows = 10, .width = 2, .hotness = 4}};
  TablePlan const plan{
      2, {{"user", Sharding::row_wise, {1, 0}}, {"country", Sharding::replicated, {}}}};
  EXPECT_EQ(describe_plan(specs, plan),
            "table            rows   width   hotness  sharding                bytes  ranks\n"
            "user             1000       4         1  row_wise                16000  1 0\n"
            "country            10       2         4  replicated                 80  all\n"
            "\n"
            "rank             bytes    looked up a sample\n"
            "   0              8080                    24\n"
            "   1              8080                    24\n");
}

TEST(PlanTables, plans_are_saved_and_loaded) {
  TemporaryFolder const folder;
  auto const path = folder.path() / "plan.json";
  TablePlan const plan{4,
                       {{"user \"a\"", Sharding::row_wise, {3, 0}},
                        {"item", Sharding::column_wise, {1, 2}},
                        {"shop", Sharding::table_wise, {3}},
                        {"city", Sharding::replicated, {}}}};
  save_plan(path, plan);
  EXPECT_EQ(load_plan(path), plan);
}

TEST(PlanTables, files_that_are_no_plan_are_refused_with_table_and_field) {
  TemporaryFolder const folder;
  auto const path = folder.path() / "plan.json";
  auto const refused = [&](std::string const& text) {
    write_file(path, text);
    auto message = message_of<std::invalid_argument>([&] { (void)load_plan(path); });
    EXPECT_THAT(message, ::testing::StartsWith(path.string() + ": "));
    return message;
  };
  auto const with = [](std::string const& tables) {
    return R"({"format": "msstream table plan", "version": 1, "ranks": 2, "tables": )" + tables +
           "}";
  };
  EXPECT_THAT(refused("{"), HasSubstr("no JSON"));
  EXPECT_THAT(refused("[]"), HasSubstr("the plan: expected an object, found []"));
  EXPECT_THAT(refused("{}"), HasSubstr("the plan: expected a field 'format', found none"));
  EXPECT_THAT(refused(R"({"format": "other"})"), HasSubstr("field 'format': expected"));
  EXPECT_THAT(refused(R"({"format": "msstream table plan", "version": 2})"),
              HasSubstr("field 'version': expected a whole number from 1 to 1, found 2"));
  EXPECT_THAT(refused(R"({"format": "msstream table plan", "version": 1, "ranks": 0})"),
              HasSubstr("field 'ranks': expected a whole number from 1 to"));
  EXPECT_THAT(refused(with("3")), HasSubstr("field 'tables': expected a list, found 3"));
  EXPECT_THAT(refused(with(R"([{"table": 1}])")),
              HasSubstr("table 0, field 'table': expected a text, found 1"));
  EXPECT_THAT(refused(with(R"([{"table": "a"}])")),
              HasSubstr("table 0 'a': expected a field 'sharding', found none"));
  EXPECT_THAT(refused(with(R"([{"table": "a", "sharding": "rows"}])")),
              HasSubstr("table 0 'a', field 'sharding': expected table_wise, row_wise, column_wise "
                        "or replicated, found \"rows\""));
  EXPECT_THAT(refused(with(R"([{"table": "a", "sharding": "row_wise"}])")),
              HasSubstr("table 0 'a': expected a field 'ranks', found none"));
  EXPECT_THAT(
      refused(with(R"([{"table": "a", "sharding": "row_wise", "ranks": [0, 2]}])")),
      HasSubstr("table 0 'a', field 'ranks': expected a whole number from 0 to 1, found 2"));
  EXPECT_THAT(refused(with(R"([{"table": "a", "sharding": "replicated", "rank": 0}])")),
              HasSubstr("table 0 'a': an unknown field 'rank'"));
  EXPECT_THAT(refused(with(R"([{"table": "a", "sharding": "replicated"},
                               {"table": "a", "sharding": "replicated"}])")),
              HasSubstr("table 1 'a' occurs twice"));
}

}  // namespace
}  // namespace msstream::testing
