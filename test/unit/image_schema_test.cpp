// Schema structs to MessagePack and JSON and back.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "common/schema/json.h"
#include "resources/schema/json.h"
#include "test/unit/image_random.h"

namespace cairn {
namespace {

using nlohmann::json;
using test::RandomStruct;
using test::same;

TEST(ImageSchema, RandomProcessesComeBack) {
    RandomStruct random(1);
    for (int i = 0; i < 300; ++i) {
        const auto process = random.make<schema::Process>();
        const auto decoded = schema::decode_process(schema::encode(process));
        ASSERT_TRUE(decoded) << decoded.error().what;
        ASSERT_TRUE(same(process, *decoded));
        const auto from_json = schema::process_from_json(schema::to_json(process));
        ASSERT_TRUE(from_json) << from_json.error().what;
        ASSERT_TRUE(same(process, *from_json));
        // Another's MessagePack, both ways; its maps are in the order of their keys.
        const auto theirs = schema::decode_process(json::to_msgpack(schema::to_json(process)));
        ASSERT_TRUE(theirs) << theirs.error().what;
        ASSERT_TRUE(same(process, *theirs));
        const auto read_by_them = schema::process_from_json(json::from_msgpack(schema::encode(process)));
        ASSERT_TRUE(read_by_them) << read_by_them.error().what;
        ASSERT_TRUE(same(process, *read_by_them));
    }
}

TEST(ImageSchema, RandomObjectsAndManifestsComeBack) {
    RandomStruct random(2);
    for (int i = 0; i < 300; ++i) {
        const auto objects = random.make<schema::Objects>();
        const auto decoded = schema::decode_objects(schema::encode(objects));
        ASSERT_TRUE(decoded) << decoded.error().what;
        ASSERT_TRUE(same(objects, *decoded));
        const auto manifest = random.make<schema::Manifest>();
        const auto from_json = schema::manifest_from_json(schema::to_json(manifest));
        ASSERT_TRUE(from_json) << from_json.error().what;
        ASSERT_TRUE(same(manifest, *from_json));
    }
}

void expect_damaged(const Result<schema::Process>& process, const std::string& part) {
    ASSERT_FALSE(process) << part;
    EXPECT_EQ(process.error().code, ExitCode::damaged);
    EXPECT_NE(process.error().what.find(part), std::string::npos) << process.error().what;
}

// A process with one of everything.
json whole_process() {
    schema::Process process;
    process.threads.resize(2);
    process.areas.resize(1);
    process.areas[0].pages.resize(1);
    return schema::to_json(process);
}

TEST(ImageSchema, EveryFieldHasToBeThereAndNoOther) {
    const json whole = whole_process();
    ASSERT_TRUE(schema::process_from_json(whole));
    for (const auto& [name, value] : whole.items()) {
        json without = whole;
        without.erase(name);
        expect_damaged(schema::process_from_json(without), name + " is missing");
    }
    json more = whole;
    more["threads"][1]["from_the_future"] = {{"a", {1, 2, 3}}};
    expect_damaged(schema::process_from_json(more),
                   "threads[1].from_the_future is a field that this cairn doesn't know");
}

TEST(ImageSchema, WrongTypesAndRangesAreNamed) {
    const auto expect_wrong = [](const char* where, const json& value, const std::string& part) {
        json changed = whole_process();
        changed[json::json_pointer(where)] = value;
        expect_damaged(schema::decode_process(json::to_msgpack(changed)), part);
    };
    expect_wrong("/pid", "seven", "pid is string");
    expect_wrong("/pid", 1ULL << 40, "pid is 1099511627776, out of range");
    expect_wrong("/umask", -1, "umask is -1, out of range");
    expect_wrong("/pid", 1.5, "pid is number");
    expect_wrong("/subreaper", 1, "subreaper is number");
    expect_wrong("/name", json::array(), "name is array");
    expect_wrong("/run", "flying", "run is 'flying'");
    expect_wrong("/uids", {1, 2, 3}, "uids has 3 elements");
    expect_wrong("/threads/1/tid", nullptr, "threads[1].tid is null");
    expect_wrong("/areas/0/pages", {{1, 2}}, "areas[0].pages[0] has 2 elements");
    expect_wrong("/areas/0/pages", json::binary({1, 2, 3}), "areas[0].pages has 3 bytes");
    expect_wrong("/layout", 3, "layout is number");
    expect_wrong("", json::array(), "process is array");
}

TEST(ImageSchema, WhatAnObjectSaysOfItsKindIsCheckedLikeEverythingElse) {
    const auto with = [](const json& what) {
        schema::Objects objects;
        objects.objects.resize(1);
        json value = schema::to_json(objects);
        value["objects"][0]["what"] = what;
        return schema::objects_from_json(value);
    };
    const auto expect_wrong = [&](const json& what, const std::string& part) {
        const auto objects = with(what);
        ASSERT_FALSE(objects) << what;
        EXPECT_EQ(objects.error().code, ExitCode::damaged);
        EXPECT_NE(objects.error().what.find(part), std::string::npos) << objects.error().what;
    };
    expect_wrong(json::object(), "what has 0 keys, not one");
    const auto good = with({{"eventfd", {{"count", 3}, {"semaphore", true}}}});
    ASSERT_TRUE(good) << good.error().what;
    ASSERT_TRUE(good->objects[0].is<schema::Eventfd>());
    EXPECT_EQ(good->objects[0].get<schema::Eventfd>()->count, 3U);
    expect_wrong({{"eventfd", {{"semaphore", true}}}}, "objects[0].what.eventfd.count is missing");
    expect_wrong({{"eventfd", {{"count", "3"}, {"semaphore", true}}}}, "what.eventfd.count is string");
    expect_wrong({{"eventfd", {{"count", 3}, {"semaphore", true}, {"color", 1}}}},
                 "what.eventfd.color is a field that this cairn doesn't know");
    expect_wrong({{"pidfd", {{"pid", -2}}}}, "what.pidfd.pid is -2, out of range");
    expect_wrong({{"telephone", json::object()}}, "what is 'telephone', which this cairn doesn't know");
    expect_wrong({{"pidfd", {{"pid", 1}}}, {"signalfd", {{"mask", 1}}}}, "what has 2 keys, not one");
    expect_wrong(3, "what is number");
    json unix_socket = schema::to_json([] {
        schema::Object object;
        object.what = schema::UnixSocket{};
        return object;
    }())["what"];
    EXPECT_TRUE(with(unix_socket));
    for (const auto& [option, wrong] : {std::pair{"SO_KEEPALIVE", "is string"}, {"SO_LINGER", "is string"}}) {
        json changed = unix_socket;
        changed["unix"]["options"][option] = "yes";
        expect_wrong(changed, fmt::format("what.unix.options.{} {}", option, wrong));
    }
    json strange = unix_socket;
    strange["unix"]["options"]["SO_STRANGE"] = 1;
    expect_wrong(strange, "what.unix.options.SO_STRANGE is a field that this cairn doesn't know");
    strange = unix_socket;
    strange["unix"]["shutdown"] = 4;
    expect_wrong(strange, "what.unix.shutdown is 4, out of range");
    strange = unix_socket;
    strange["unix"]["messages"] = {{{"from", json::binary({})}, {"rights", {"7"}}}};
    expect_wrong(strange, "what.unix.messages[0].rights[0] is string");
    // A field that is optional may be left out, but not be something else.
    const json watch = {{"wd", 1}, {"mask", 2}};
    EXPECT_TRUE(with({{"inotify", {{"watches", {watch}}}}}));
    json wrong = watch;
    wrong["path"] = 7;
    expect_wrong({{"inotify", {{"watches", {wrong}}}}}, "what.inotify.watches[0].path is number");
}

TEST(ImageSchema, HugeLengthsAllocateNothing) {
    const std::vector<schema::Bytes> bombs = {
        {0xdd, 0xff, 0xff, 0xff, 0xff},       // array of 2^32-1
        {0xdf, 0xff, 0xff, 0xff, 0xff},       // map of 2^32-1
        {0xdb, 0xff, 0xff, 0xff, 0xff, 'a'},  // string of 4 GiB
        {0xc6, 0xff, 0xff, 0xff, 0xff, 'a'},  // binary of 4 GiB
        {0x81, 0xa5, 'a', 'r', 'e', 'a', 's', 0xdd, 0xff, 0xff, 0xff, 0xff},
    };
    for (const auto& bomb : bombs) {
        const auto process = schema::decode_process(bomb);
        ASSERT_FALSE(process);
        EXPECT_EQ(process.error().code, ExitCode::damaged);
    }
}

TEST(ImageSchema, DeepNestingDoesNotOverflowTheStack) {
    for (const std::uint8_t opener : {std::uint8_t{0x91}, std::uint8_t{0x81}}) {
        const schema::Bytes deep(std::size_t{8} << 20, opener);
        EXPECT_FALSE(schema::decode_process(deep));
    }
}

TEST(ImageSchema, EveryCutIsNoticed) {
    RandomStruct random(3);
    const schema::Bytes whole = schema::encode(random.make<schema::Process>());
    for (std::size_t length = 0; length < whole.size(); ++length)
        ASSERT_FALSE(schema::decode_process(std::span(whole).first(length))) << length;
    schema::Bytes longer = whole;
    longer.push_back(0);
    EXPECT_FALSE(schema::decode_process(longer));
}

TEST(ImageSchema, PageRunsAreCompact) {
    schema::Process process;
    schema::Area area;
    area.pages.resize(100'000);
    const std::size_t empty = schema::encode(process).size();
    process.areas.push_back(area);
    EXPECT_LT(schema::encode(process).size() - empty, 100'000 * 32 + 1000);
}

TEST(ImageSchema, DumpTakesAnyBytes) {
    schema::Process process;
    process.name = "\xff\xfe";
    process.layout.auxv = {0x0a, 0xff};
    const std::string text = schema::dump(schema::to_json(process));
    EXPECT_NE(text.find("\"0aff\""), std::string::npos);
    EXPECT_TRUE(json::accept(text));
}

}  // namespace
}  // namespace cairn
