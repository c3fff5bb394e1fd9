#include "reports/files/json_schema.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "reports/columns.h"
#include "reports/files/file.h"
#include "tests/paths.h"

namespace stbench::reports {
namespace {

TEST(JsonSchema, CommittedIsTheProgramsOwn) {
  EXPECT_EQ(read_file(stbench::test::source_folder() + "/docs/report.schema.json"), json_schema())
      << "write it anew: stbench schema > docs/report.schema.json";
}

TEST(JsonSchema, HasEachColumnWithItsKind) {
  const auto schema = nlohmann::json::parse(json_schema());
  const auto& properties = schema["properties"]["cases"]["items"]["properties"];
  EXPECT_EQ(properties.size(), fixed_columns().size() + known_axes().size() + 2);  // and role, samples_s
  for (const Column& column : fixed_columns()) {
    const std::string name(column.name);
    ASSERT_TRUE(properties.contains(name)) << name;
    if (name == "status") continue;
    const nlohmann::json text = "string", integer = "integer", real = {"number", "null"};
    EXPECT_EQ(properties[name]["type"], column.kind == Kind::text      ? text
                                        : column.kind == Kind::integer ? integer
                                                                       : real)
        << name;
  }
}

}  // namespace
}  // namespace stbench::reports
