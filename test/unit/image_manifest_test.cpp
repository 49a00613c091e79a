// manifest.json: written, read, and refused when anything about it is wrong.
#include <nlohmann/json.hpp>

#include "common/image/manifest.h"
#include "test/unit/image_file.h"
#include "test/unit/image_random.h"

namespace cairn {
namespace {

using test::expect_damaged;
using test::Folder;

schema::Manifest example(const Folder& folder) {
    test::write_example(folder, "p-42.img");
    schema::Manifest manifest;
    manifest.cid = "host-42-1";
    manifest.np = 1;
    manifest.notes = {"a note with \"checksum\": \"in it\""};
    manifest.images.push_back({"p-42.img", "host-42-1", ProgramId(42), "example",
                               std::filesystem::file_size(folder.file("p-42.img")), 0});
    return manifest;
}

// The text with its checksum made right again.
std::string sealed(std::string text) {
    const std::string key = "\"checksum\": \"";
    const std::size_t at = text.find(key) + key.size();
    text.replace(at, 16, 16, '0');
    const auto sum = hash64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
    return text.replace(at, 16, fmt::format("{:016x}", sum));
}

TEST(ImageManifest, ComesBack) {
    const Folder folder;
    const schema::Manifest manifest = example(folder);
    ASSERT_TRUE(write_manifest(folder.fd(), manifest));
    const auto again = read_manifest(folder.path());
    ASSERT_TRUE(again) << again.error().what;
    EXPECT_TRUE(test::same(manifest, *again));
    EXPECT_FALSE(std::filesystem::exists(folder.file("manifest.json.new")));
}

TEST(ImageManifest, RandomOnesComeBackAsText) {
    test::RandomStruct random(6);
    for (int i = 0; i < 200; ++i) {
        auto manifest = random.make<schema::Manifest>();
        manifest.version = manifest_version;
        const std::string text = manifest_text(manifest);
        ASSERT_TRUE(nlohmann::json::accept(text));
        const auto again = parse_manifest(text, "m");
        ASSERT_TRUE(again) << again.error().what;
        EXPECT_EQ(again->taken_at_ns, manifest.taken_at_ns);
        EXPECT_EQ(again->images.size(), manifest.images.size());
        EXPECT_EQ(manifest_text(*again), text);
    }
}

TEST(ImageManifest, EveryFlippedBitIsNoticed) {
    const Folder folder;
    const std::string text = manifest_text(example(folder));
    for (std::size_t i = 0; i < text.size(); ++i) {
        std::string other = text;
        other[i] = static_cast<char>(other[i] ^ 1 << i % 8);
        expect_damaged(parse_manifest(other, "m"), "m is damaged");
    }
}

TEST(ImageManifest, EveryCutIsNoticed) {
    const Folder folder;
    const std::string text = manifest_text(example(folder));
    for (std::size_t i = 0; i < text.size(); ++i)
        expect_damaged(parse_manifest(text.substr(0, i), "m"), "m is damaged");
}

TEST(ImageManifest, OtherVersionByName) {
    const Folder folder;
    schema::Manifest manifest = example(folder);
    manifest.version = 2;
    ASSERT_TRUE(write_manifest(folder.fd(), manifest));
    expect_damaged(read_manifest(folder.path()), "manifest.json has version 2, this cairn reads version 1");
}

TEST(ImageManifest, WrongContents) {
    expect_damaged(parse_manifest(sealed(R"({"checksum": "0000000000000000"})"), "m"), "no version");
    expect_damaged(parse_manifest(sealed(R"({"checksum": "0000000000000000", "version": "1"})"), "m"),
                   "no version");
    expect_damaged(parse_manifest(sealed(R"(["checksum": "0000000000000000"])"), "m"), "not a JSON object");
    expect_damaged(
        parse_manifest(sealed(R"({"checksum": "0000000000000000", "version": 1, "np": "x"})"), "m"),
        "np is string");
    std::string deep = R"({"checksum": "0000000000000000", "version": 1, "x": )";
    deep += std::string(1 << 20, '[') + std::string(1 << 20, ']') + "}";
    EXPECT_TRUE(parse_manifest(sealed(deep), "m"));  // unknown fields are ignored, and the stack survives
}

TEST(ImageManifest, ImagesMustBeThereAndWhole) {
    const Folder folder;
    const schema::Manifest manifest = example(folder);
    ASSERT_TRUE(write_manifest(folder.fd(), manifest));
    std::filesystem::resize_file(folder.file("p-42.img"), 100);
    expect_damaged(read_manifest(folder.path()), "has 100 bytes, the manifest says");
    std::filesystem::remove(folder.file("p-42.img"));
    expect_damaged(read_manifest(folder.path()), "No such file");
    for (const char* name : {"../p-42.img", "", ".", "..", "/etc/passwd"}) {
        schema::Manifest hostile = manifest;
        hostile.images[0].file = name;
        ASSERT_TRUE(write_manifest(folder.fd(), hostile));
        expect_damaged(read_manifest(folder.path()), "outside of its folder");
    }
    std::filesystem::remove(folder.file("manifest.json"));
    expect_damaged(read_manifest(folder.path()), "holds no complete checkpoint");
}

// Where the part of a host lies: a restart of that host goes into it.
TEST(ImageManifest, AHostsFolderIsBelow) {
    const Folder folder;
    schema::Manifest manifest = example(folder);
    schema::ManifestHost host;
    host.name = "b";
    host.folder = "b";
    manifest.hosts.push_back(host);
    ASSERT_TRUE(write_manifest(folder.fd(), manifest));
    ASSERT_TRUE(read_manifest(folder.path()));
    using namespace std::string_literals;
    for (const std::string& name :
         {".."s, "."s, ""s, "../b"s, "b/.."s, "b/../.."s, "/"s, "/etc"s, "b/c"s, "b\0c"s}) {
        schema::Manifest hostile = manifest;
        hostile.hosts[0].folder = name;
        ASSERT_TRUE(write_manifest(folder.fd(), hostile));
        expect_damaged(read_manifest(folder.path()),
                       "says that host b has written '" + name + "', which is no folder in it");
    }
}

}  // namespace
}  // namespace cairn
