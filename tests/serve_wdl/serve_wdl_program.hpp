// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/serve_program.hpp"

namespace msstream::testing {

class ServeWdl : public ServeProgramTest {
 protected:
  ServeWdl() : ServeProgramTest(MSSTREAM_SERVE_WDL) {}

  [[nodiscard]] static Words asking() {
    return {"--runtime",
            runtime(),
            "--batch",
            "4",
            "--queries",
            "7",
            "--seconds",
            "0.05",
            "--replicas",
            "2",
            "--warmup",
            "0.01",
            "--quiet"};
  }
  [[nodiscard]] static Words small() {
    return asking() + Words{"--fields",
                            "3",
                            "--hotness",
                            "2",
                            "--table-rows",
                            "50",
                            "--embedding-dim",
                            "4",
                            "--continuous",
                            "3",
                            "--layers",
                            "8,4"};
  }
};

}  // namespace msstream::testing
