// The static front's own small parts: messages, verbs, environment.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/hello.h"
#include "cli/verbs.h"
#include "common/preload.h"
#include "common/region.h"

namespace cairn::cli {
namespace {

TEST(Hello, MessageIsJson) {
    const auto plain = nlohmann::json::parse(hello_message({}));
    EXPECT_EQ(plain, (nlohmann::json{{"verb", "hello"}}));
    const std::string odd = "/a \"b\"\\c\n\x01/é";
    const auto full = nlohmann::json::parse(hello_message({odd, "1.5", "7", true}));
    EXPECT_EQ(full["ckptdir"], odd);
    EXPECT_EQ(full["interval"], 1.5);
    EXPECT_EQ(full["keep"], 7);
    EXPECT_EQ(full["self_contained"], true);
}

TEST(JsonField, FindsWhatNlohmannWrites) {
    const nlohmann::json event{{"event", "done"},
                               {"code", 0},
                               {"list", {1, "}]", nlohmann::json::object()}},
                               {"inner", {{"x", 1}}},
                               {"region", "/t/\"q\"\\\té\u0007"}};
    for (const int indent : {-1, 2}) {
        const std::string text = event.dump(indent);
        EXPECT_EQ(json_field(text, "event"), "done");
        EXPECT_EQ(json_field(text, "code"), "0");
        EXPECT_EQ(json_field(text, "region"), event["region"].get<std::string>());
        EXPECT_EQ(json_field(text, "x"), "");
        EXPECT_EQ(json_field(text, "absent"), "");
    }
}

TEST(JsonField, Escapes) {
    const std::string text = nlohmann::json{{"a", "é€😀\n"}}.dump(-1, ' ', true);
    EXPECT_EQ(json_field(text, "a"), "é€😀\n");
}

TEST(JsonField, DamagedTextEnds) {
    const std::string whole = R"({"event":"done","list":[1,{"a":"b\u00e9"}],"region":"/x"})";
    for (std::size_t size = 0; size < whole.size(); ++size)
        EXPECT_EQ(json_field(whole.substr(0, size), "absent"), "");
    EXPECT_EQ(json_field("{\"a\":}", "a"), "");
    EXPECT_EQ(json_field("[]", "a"), "");
}

TEST(Verbs, NearestIsSuggested) {
    EXPECT_EQ(nearest_verb("lauch")->name, "launch");
    EXPECT_EQ(nearest_verb("chekpoint")->name, "checkpoint");
    EXPECT_EQ(nearest_verb("ckpt"), nullptr);
    EXPECT_EQ(nearest_verb("check")->name, "checkpoint");
    EXPECT_EQ(nearest_verb("ilst")->name, "list");
    EXPECT_EQ(nearest_verb("frobnicate"), nullptr);
    EXPECT_EQ(find_verb("lauch"), nullptr);
    EXPECT_EQ(find_verb("restart")->program, "cairn-restart");
}

TEST(Preload, OursFirstOthersKept) {
    ::setenv("LD_PRELOAD", "/a/libjemalloc.so:/old/libcairn.so /b/x.so", 1);
    EXPECT_EQ(set_preload("/new/libcairn.so", "/run/region"), "");
    EXPECT_STREQ(std::getenv("LD_PRELOAD"), "/new/libcairn.so:/a/libjemalloc.so:/b/x.so");
    EXPECT_STREQ(std::getenv(env_region), "/run/region");
    EXPECT_STREQ(std::getenv(env_library), "/new/libcairn.so");
    forget_preload();
    EXPECT_STREQ(std::getenv("LD_PRELOAD"), "/a/libjemalloc.so:/b/x.so");
    EXPECT_EQ(std::getenv(env_region), nullptr);
    ::setenv("LD_PRELOAD", "/old/libcairn.so", 1);
    forget_preload();
    EXPECT_EQ(std::getenv("LD_PRELOAD"), nullptr);
    EXPECT_NE(set_preload("/with space/libcairn.so", "/run/region"), "");
}

}  // namespace
}  // namespace cairn::cli
