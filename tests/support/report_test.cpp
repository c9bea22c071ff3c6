// SPDX-License-Identifier: Apache-2.0
#include "support/temporary_folder.hpp"

#include <msstream/support/report.hpp>

#include <gtest/gtest.h>

#include <cmath>

namespace msstream::support {
namespace {

TEST(Report, is_indented_json_with_a_last_line_end) {
  TemporaryFolder const folder;
  write_report(folder / "report.json", {{"auc", 0.5}, {"loss", std::nan("")}, {"file", "\xff"}});
  EXPECT_EQ(read_all(folder / "report.json"),
            "{\n  \"auc\": 0.5,\n  \"loss\": null,\n  \"file\": \"\xEF\xBF\xBD\"\n}\n");
}

}  // namespace
}  // namespace msstream::support
