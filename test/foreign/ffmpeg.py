"""ffmpeg: pictures and sound made, packed, unpacked and packed again, through pipes and with its threads: the same bytes."""
# ci: none (its packages are heavy: where they are installed)
import shutil
from cairn_test import Skip, same_as_undisturbed

SCRIPT = r"""
F="ffmpeg -nostdin -hide_banner -loglevel error" B="-fflags +bitexact -flags:v +bitexact -flags:a +bitexact"
$F -f lavfi -i testsrc2=duration=$1:size=320x240:rate=25 -f lavfi -i sine=frequency=440:duration=$1 \
    -c:v mpeg4 -threads 2 -q:v 3 -c:a flac -map_metadata -1 $B -f matroska - |
  tee packed.mkv |
  $F -i - -vf scale=160:120,hue=h=40 -c:v ffv1 -threads 2 -slices 4 -c:a pcm_s16le $B -f nut - |
  tee >(sha256sum > nut.sum) |
  $F -i - -c:v mjpeg -q:v 4 -threads 2 -c:a mp2 $B -f avi - | sha256sum
echo "ends ${PIPESTATUS[*]}"
wait
"""


def test(t):
    if not shutil.which("ffmpeg"):
        raise Skip("ffmpeg isn't installed")
    same_as_undisturbed(t, lambda scale: ["bash", "-c", SCRIPT, "bash", str(scale)], scale=60 if t.soak else 4, timeout=600)
