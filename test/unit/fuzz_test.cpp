// The fuzzers' functions on their seeds and on some thousand random changes of them: each aborts where
// something is wrong. test/fuzz/ has their long form.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/image/manifest.h"
#include "common/image/writer.h"
#include "common/schema/json.h"
#include "test/fuzz/try_out.h"
#include "test/unit/image_random.h"

extern "C" {
int fuzz_channel(const std::uint8_t* bytes, std::size_t size);
int fuzz_request(const std::uint8_t* bytes, std::size_t size);
int fuzz_image_schema(const std::uint8_t* bytes, std::size_t size);
int fuzz_image_manifest(const std::uint8_t* bytes, std::size_t size);
int fuzz_image_file(const std::uint8_t* bytes, std::size_t size);
}

namespace cairn {
namespace {

namespace fs = std::filesystem;
using fuzz::Input;
using fuzz::try_out;

Input with_first(std::uint8_t first, const auto& data) {
    Input input{first};
    input.insert(input.end(), data.begin(), data.end());
    return input;
}

std::vector<Input> wire_seeds() {
    return fuzz::seeds_in(CAIRN_SOURCE_DIR "/test/fuzz/wire_seeds");
}

TEST(Fuzz, Channel) {
    std::vector<Input> seeds;
    for (const Input& seed : wire_seeds())
        for (const std::uint8_t who : {0, 1, 2, 3}) seeds.push_back(with_first(who, with_first(40, seed)));
    ASSERT_FALSE(seeds.empty());
    try_out(fuzz_channel, seeds, 1000);
}

TEST(Fuzz, Request) {
    const auto seeds = wire_seeds();
    ASSERT_FALSE(seeds.empty());
    try_out(fuzz_request, seeds, 3000);
}

TEST(Fuzz, Schema) {
    test::RandomStruct random(7);
    std::vector<Input> seeds;
    for (int i = 0; i < 4; ++i) {
        seeds.push_back(schema::encode(random.make<schema::Process>()));
        seeds.push_back(schema::encode(random.make<schema::Objects>()));
    }
    try_out(fuzz_image_schema, seeds, 500);
}

TEST(Fuzz, Manifest) {
    test::RandomStruct random(7);
    std::vector<Input> seeds;
    for (int i = 0; i < 4; ++i) {
        auto manifest = random.make<schema::Manifest>();
        manifest.version = manifest_version;
        seeds.push_back(with_first(1, manifest_text(manifest)));
    }
    try_out(fuzz_image_manifest, seeds, 1000);
}

TEST(Fuzz, File) {
    test::RandomStruct random(7);
    char name[] = "/tmp/cairn-fuzz-XXXXXX";
    ASSERT_NE(::mkdtemp(name), nullptr);
    std::vector<Input> seeds;
    for (int i = 0; i < 4; ++i) {
        const std::string path = std::string(name) + "/image" + std::to_string(i);
        auto writer = ImageWriter::create(AT_FDCWD, path, ImageKind::process);
        ASSERT_TRUE(writer && writer->reserve(image_page));
        writer->add_section(SectionType::meta, schema::encode(random.make<schema::Process>()));
        ASSERT_TRUE(writer->finish(Durable::no));
        std::ifstream file(path, std::ios::binary);
        seeds.push_back(with_first(1, Input(std::istreambuf_iterator<char>(file), {})));
    }
    fs::remove_all(name);
    try_out(fuzz_image_file, seeds, 300);
}

}  // namespace
}  // namespace cairn
