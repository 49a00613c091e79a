// Writes the inputs that fuzzing starts from: image_seeds FOLDER makes FOLDER/{file,schema,manifest}/.
#include <fcntl.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/image/manifest.h"
#include "common/image/page_hashes.h"
#include "common/image/writer.h"
#include "common/schema/json.h"
#include "resources/schema/json.h"
#include "test/unit/image_random.h"

namespace {

using namespace cairn;
namespace fs = std::filesystem;

void store(const fs::path& path, char first, std::span<const std::uint8_t> data, bool with_first) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    if (with_first) file.put(first);
    file.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
}

schema::Bytes image(const fs::path& folder, ImageKind kind, schema::Bytes section, SectionType type) {
    const fs::path path = folder / "image";
    fs::remove(path);
    auto writer = ImageWriter::create(AT_FDCWD, path.string(), kind);
    if (!writer) std::exit(1);
    (void)writer->reserve(image_page);
    writer->add_section(type, std::move(section));
    if (!writer->finish(Durable::no)) std::exit(1);
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

// A process whose areas pass every check, so that mutations begin beyond them.
schema::Process plausible() {
    schema::Process process;
    process.threads.resize(2);
    process.areas.resize(2);
    const schema::Bytes zeros(image_page);
    process.areas[0].start = ProgramAddress(0x10000);
    process.areas[0].end = ProgramAddress(0x20000);
    process.areas[0].pages.push_back({ProgramAddress(0x11000), image_page, image_page, run_hash(zeros)});
    process.areas[1].start = ProgramAddress(0x20000);
    process.areas[1].end = ProgramAddress(0x30000);
    process.areas[1].guards = {{ProgramAddress(0x20000), 0x1000}};
    return process;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: image_seeds FOLDER\n");
        return 2;
    }
    const fs::path folder = argv[1];
    for (const char* name : {"file", "schema", "manifest"}) fs::create_directories(folder / name);
    test::RandomStruct random(7);
    for (int i = 0; i < 8; ++i) {
        const std::string name = fmt::format("seed{}", i);
        const auto process = i == 0 ? plausible() : random.make<schema::Process>();
        const auto objects = random.make<schema::Objects>();
        auto manifest = random.make<schema::Manifest>();
        manifest.version = manifest_version;
        const std::string text = manifest_text(manifest);
        store(folder / "schema" / ("p" + name), 0, schema::encode(process), false);
        store(folder / "schema" / ("o" + name), 0, schema::encode(objects), false);
        store(folder / "manifest" / name, 1,
              {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, true);
        store(folder / "file" / ("p" + name), 1,
              image(folder, ImageKind::process, schema::encode(process), SectionType::meta), true);
        store(folder / "file" / ("o" + name), 1,
              image(folder, ImageKind::objects, schema::encode(objects), SectionType::objects), true);
    }
    return 0;
}
