// Descriptions of types (BTF) are captured and restored, or refused, without a checkpoint.
// root: BTF is root's to load
#include <linux/bpf.h>
#include <linux/btf.h>

#include "test/unit/objects_support.h"
#include "test/unit/without_capabilities.h"

namespace cairn::test {
namespace {

int call_for_btf(int command, bpf_attr& asked) {
    return static_cast<int>(::syscall(SYS_bpf, command, &asked, sizeof asked));
}

// An int of so many bytes.
struct OneType {
    btf_header head{BTF_MAGIC, BTF_VERSION, 0, sizeof head, 0, 16, 16, 5};
    std::uint32_t name = 1, info = BTF_KIND_INT << 24, size = 4, encoding = 32;
    char names[5] = "\0int";

    explicit OneType(std::uint32_t bytes) : size(bytes), encoding(bytes * 8) {}
    [[nodiscard]] schema::Bytes bytes() const {
        const auto* begin = reinterpret_cast<const std::uint8_t*>(this);
        return {begin, begin + offsetof(OneType, names) + sizeof names};
    }
};

int load_btf(const schema::Bytes& bytes) {
    bpf_attr asked{};
    asked.btf = reinterpret_cast<std::uintptr_t>(bytes.data());
    asked.btf_size = static_cast<std::uint32_t>(bytes.size());
    return call_for_btf(BPF_BTF_LOAD, asked);
}

bpf_btf_info info_of_btf(int fd, schema::Bytes* bytes = nullptr) {
    bpf_btf_info info{};
    if (bytes != nullptr) {
        info.btf = reinterpret_cast<std::uintptr_t>(bytes->data());
        info.btf_size = static_cast<std::uint32_t>(bytes->size());
    }
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(fd);
    asked.info.info_len = sizeof info;
    asked.info.info = reinterpret_cast<std::uintptr_t>(&info);
    return call_for_btf(BPF_OBJ_GET_INFO_BY_FD, asked) == 0 ? info : bpf_btf_info{};
}
schema::Bytes types_of(int fd) {
    schema::Bytes bytes(info_of_btf(fd).btf_size);
    info_of_btf(fd, &bytes);
    return bytes;
}

int btf_by_id(std::uint32_t id) {
    bpf_attr wanted{};
    wanted.btf_id = id;
    return call_for_btf(BPF_BTF_GET_FD_BY_ID, wanted);
}

// The first of the kernel's own; -1: it shows none.
int kernels_btf() {
    bpf_attr next{};
    for (; call_for_btf(BPF_BTF_GET_NEXT_ID, next) == 0; next.start_id = next.next_id) {
        Fd fd(btf_by_id(next.next_id));
        if (fd && info_of_btf(fd.get()).kernel_btf != 0) return fd.release();
    }
    return -1;
}

class ObjectsBtf : public ::testing::Test {
    void SetUp() override {
        if (!Fd(load_btf(OneType(4).bytes()))) GTEST_SKIP() << "BTF may not be loaded";
    }
};

TEST_F(ObjectsBtf, WithItsTypes) {
    const schema::Bytes small = OneType(4).bytes(), large = OneType(8).bytes();
    Stopped process([&] {
        at(120, load_btf(small));
        at(121, load_btf(large));
        at(122, btf_by_id(info_of_btf(120).id));
        at(123, load_btf(small));
    });
    Checkpoint checkpoint;
    checkpoint.take(process);
    checkpoint.restore([&](std::size_t) {
        CHILD_CHECK(types_of(120) == small && types_of(121) == large);
        CHILD_CHECK(types_of(122) == small && types_of(123) == small);
        const std::uint32_t id = info_of_btf(120).id;
        CHILD_CHECK(id != 0 && info_of_btf(122).id == id && info_of_btf(123).id != id);
        CHILD_CHECK(!same_description(120, 122));
    });
}

TEST_F(ObjectsBtf, TheKernelsIsRefused) {
    // A kernel that shows none of its own, as before Linux 5.11, has nothing that could be refused.
    const Fd kernels(kernels_btf());
    if (!kernels) return;
    char name[64] = "";
    bpf_btf_info info{};
    info.name = reinterpret_cast<std::uintptr_t>(name);
    info.name_len = sizeof name;
    bpf_attr asked{};
    asked.info.bpf_fd = static_cast<std::uint32_t>(kernels.get());
    asked.info.info_len = sizeof info;
    asked.info.info = reinterpret_cast<std::uintptr_t>(&info);
    ASSERT_EQ(call_for_btf(BPF_OBJ_GET_INFO_BY_FD, asked), 0);
    expect_refused([&] { at(120, ::dup(kernels.get())); },
                   fmt::format("is the description of the kernel's own types (BTF of {}), which can't be "
                               "saved, because another kernel has others; close it before a checkpoint",
                               name));
}

TEST_F(ObjectsBtf, OnlyRootSavesAndRestoresIt) {
    const Fd inherited(load_btf(OneType(4).bytes()));
    Stopped process([&] { at(120, ::dup(inherited.get())); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    const WithoutCapabilities less({CAP_BPF, CAP_SYS_ADMIN});
    expect_refused([&] { at(120, ::dup(inherited.get())); },
                   "is a description of types (BTF), which root alone can save (CAP_BPF, CAP_SYS_ADMIN); "
                   "close it before a checkpoint");
    const auto opened = checkpoint.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ExitCode::refused);
    EXPECT_TRUE(opened.error().what.contains("which root alone can load: restart as root"))
        << opened.error().what;
}

// Types that this kernel doesn't know are refused.
TEST_F(ObjectsBtf, OfALaterKernelIsRefused) {
    Stopped process([] { at(120, load_btf(OneType(4).bytes())); });
    Checkpoint checkpoint;
    checkpoint.take(process);
    schema::Objects objects = checkpoint.objects();
    OneType later(4);
    later.info = 31U << 24;
    for (schema::Object& each : objects.objects)
        if (each.get<schema::Btf>() != nullptr) each.what = schema::Btf{0, later.bytes()};
    std::filesystem::remove(checkpoint.folder / "objects");
    auto writer = ImageWriter::create(AT_FDCWD, checkpoint.folder / "objects", ImageKind::objects);
    ASSERT_TRUE(writer) << writer.error().what;
    writer->add_section(SectionType::objects, schema::encode(objects));
    ASSERT_TRUE(writer->finish(Durable::no));
    const auto opened = checkpoint.open();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().code, ExitCode::refused);
    EXPECT_TRUE(opened.error().what.contains("this kernel doesn't take a description of types (BTF)"))
        << opened.error().what;
}

}  // namespace
}  // namespace cairn::test
