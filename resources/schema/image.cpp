#include "resources/schema/image.h"

#include "resources/schema/json.h"

namespace cairn {
namespace {

Result<> check_objects(const ImageReader& reader, const schema::Objects& objects) {
    for (const schema::Object& object : objects.objects) {
        const auto* memory = object.get<schema::Memory>();
        if (memory == nullptr) continue;
        // The last page of a memory object may be a part of one.
        const std::uint64_t whole = memory->size + (image_page - memory->size % image_page) % image_page;
        if (auto good = check_runs(reader, memory->pages, std::uint64_t{0}, whole); !good)
            return std::unexpected(std::move(good).error().in(fmt::format("object {}", object.id)));
    }
    return {};
}

}  // namespace

Result<ObjectsImage> open_objects_image(const std::string& path) {
    auto reader = TRY(ImageReader::open(path));
    CHECK_OK(reader.expect(ImageKind::objects));
    const auto section = TRY(reader.section(SectionType::objects));
    auto objects = schema::decode_objects(section);
    if (!objects) return std::unexpected(std::move(objects).error().in("image " + path + ": section OBJS"));
    CHECK_OK(check_objects(reader, *objects));
    return ObjectsImage{std::move(reader), *std::move(objects)};
}

}  // namespace cairn
