#include "harness/build_info.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "tests/harness/temporary_folder.h"
#include "tests/paths.h"

namespace stbench::harness {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

class BuildInfoScript : public testing::Test {
 protected:
  /// Runs a shell command in the folder. @returns its output, without the line's end
  std::string shell(const std::string& command) const {
    const std::string whole = fmt::format("cd '{}' && {} 2>&1", folder_.path().string(), command);
    std::FILE* pipe = popen(whole.c_str(), "r");
    std::array<char, 4096> buffer{};
    const std::size_t length = std::fread(buffer.data(), 1, buffer.size(), pipe);
    EXPECT_EQ(pclose(pipe), 0) << whole << "\n" << std::string(buffer.data(), length);
    std::string output(buffer.data(), length);
    while (output.ends_with('\n')) output.pop_back();
    return output;
  }

  void make_checkout() const {
    folder_.write("tracked", "1\n");
    shell("git init -q . && git add tracked && git -c user.name=n -c user.email=e commit -q -m m");
  }

  /// The last line of what the build would compile: revision and dirty.
  std::string written(const std::string& revision = "") const {
    shell(fmt::format(
        "'{}' -DSOURCE_DIR=. -DREVISION={} -DVERSION=1.2.3 -DCOMPILER=Some -DCOMPILER_VERSION=4 "
        "-DFLAGS='-O3 -g' -DTYPE=Release -DTEMPLATE='{}/harness/build_info.cpp.in' -DOUTPUT=out.cpp "
        "-P '{}/harness/build_info.cmake'",
        STBENCH_CMAKE, revision, stbench::test::source_folder(), stbench::test::source_folder()));
    return stbench::test::content_of(folder_.path() / "out.cpp");
  }

  stbench::test::TemporaryFolder folder_;
};

TEST(BuildInfo, IsOfThisBuild) {
  EXPECT_THAT(build_info().git_revision, MatchesRegex("([0-9a-f]{40})?"));
  EXPECT_THAT(build_info().version, MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_FALSE(build_info().compiler_version.empty());
}

TEST_F(BuildInfoScript, WritesWhatTheConfigurationSays) {
  for (const char* text : {"R\"(1.2.3)\"", "R\"(Some)\"", "R\"(-O3 -g)\"", "R\"(Release)\""}) {
    EXPECT_THAT(written(), HasSubstr(text));
  }
}

TEST_F(BuildInfoScript, FindsTheRevisionAndWhetherItIsDirty) {
  make_checkout();
  const std::string revision = shell("git rev-parse HEAD");
  EXPECT_THAT(written(), HasSubstr("R\"(" + revision + ")\", false"));
  folder_.write("untracked", "x");
  EXPECT_THAT(written(), HasSubstr("R\"(" + revision + ")\", false"));
  folder_.write("tracked", "2\n");
  EXPECT_THAT(written(), HasSubstr("R\"(" + revision + ")\", true"));
}

TEST_F(BuildInfoScript, DoesWithoutGit) {
  EXPECT_THAT(written(), HasSubstr("R\"()\", false"));
  EXPECT_THAT(written("0123abcd"), HasSubstr("R\"(0123abcd)\", false"));
  EXPECT_THAT(written("0123abcd-dirty"), HasSubstr("R\"(0123abcd)\", true"));
  EXPECT_THAT(written("no-revision"), HasSubstr("R\"()\", false"));
}

TEST_F(BuildInfoScript, LeavesTheFileWhereNothingChanged) {
  written();
  const auto before = std::filesystem::last_write_time(folder_.path() / "out.cpp");
  written();
  EXPECT_EQ(std::filesystem::last_write_time(folder_.path() / "out.cpp"), before);
}

}  // namespace
}  // namespace stbench::harness
