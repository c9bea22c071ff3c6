// SPDX-License-Identifier: Apache-2.0
#include "cli/report.hpp"

#include "base/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace msstream::cli {

namespace {

using testing::read_all;
using testing::TemporaryFolder;

TEST(Report, is_indented_json_with_a_last_line_end) {
  TemporaryFolder const folder;
  write_report(folder / "report.json", {{"auc", 0.5}, {"loss", std::nan("")}, {"file", "\xff"}});
  EXPECT_EQ(read_all(folder / "report.json"),
            "{\n  \"auc\": 0.5,\n  \"loss\": null,\n  \"file\": \"\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace msstream::cli
