# SPDX-License-Identifier: Apache-2.0
"""Operations on images (prep/) beside Pillow and torchvision, bit for bit."""
import csv
import io
import json
import random
import subprocess
from pathlib import Path

import pytest

Image = pytest.importorskip("PIL.Image", reason="python3-pil is not installed")

ROOT = Path(__file__).resolve().parents[2]
TERRANE = ROOT / "build" / "terrane"
TOOL = ROOT / "build" / "release" / "tests" / "tools" / "prep_tool"
RANDOM = random.Random(27)
SAMPLING = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}


def tool(data, what, *numbers):
    done = subprocess.run([TOOL, what, *map(str, numbers)], input=data, capture_output=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr.decode().strip()


def must(data, what, *numbers):
    code, out, err = tool(data, what, *numbers)
    assert code == 0, err
    return out


def picture(width, height, seed):
    """An image with smooth parts, edges and noise."""
    rng = random.Random(seed)
    noise = Image.frombytes("RGB", (width, height), rng.randbytes(3 * width * height))
    tiles = Image.frombytes("RGB", (9, 7), rng.randbytes(3 * 63))
    smooth = tiles.resize((width, height), Image.BICUBIC)
    edges = tiles.resize((width, height), Image.NEAREST)
    return Image.blend(Image.blend(smooth, edges, 0.4), noise, 0.06)


def jpeg(image, **options):
    out = io.BytesIO()
    image.save(out, "JPEG", **options)
    return out.getvalue()


CASES = [(width, height, name, progressive)
         for width, height in ((500, 375), (333, 517))
         for name in SAMPLING for progressive in (False, True)]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{c[0]}x{c[1]}-{c[2]}-{'progressive' if c[3] else 'baseline'}")
def sample(request):
    width, height, name, progressive = request.param
    image = picture(width, height, CASES.index(request.param))
    return jpeg(image, quality=RANDOM.choice((60, 85, 95)), subsampling=SAMPLING[name], progressive=progressive)


def crops(data, count):
    width, height = Image.open(io.BytesIO(data)).size
    yield (0, 0, width, height)
    for _ in range(count):
        w, h = RANDOM.randint(1, width), RANDOM.randint(1, height)
        yield (RANDOM.randint(0, width - w), RANDOM.randint(0, height - h), w, h)


def box_of(crop):
    x, y, w, h = crop
    return (x, y, x + w, y + h)


def test_decodes_the_pixels_that_pillow_decodes(sample):
    whole = Image.open(io.BytesIO(sample)).convert("RGB")
    for crop in crops(sample, 6):
        assert must(sample, "decode", *crop) == whole.crop(box_of(crop)).tobytes(), crop


def test_a_cut_file_has_the_pixels_of_the_whole_file_in_pillow_too(sample):
    whole = Image.open(io.BytesIO(sample)).convert("RGB")
    cuts = 0
    for crop in crops(sample, 8):
        code, out, err = tool(sample, "cut", *crop)
        if code != 0:
            assert "EOVERFLOW" in err, err  # the crop is nearly all of the file
            continue
        line, cut = out.split(b"\n", 1)
        inner = tuple(map(int, line.split()))
        assert len(cut) < len(sample)
        assert inner[2:] == crop[2:]
        got = Image.open(io.BytesIO(cut)).convert("RGB").crop(box_of(inner))
        assert got.tobytes() == whole.crop(box_of(crop)).tobytes(), crop
        cuts += 1
    assert cuts > 0


def test_resizes_to_the_pixels_that_pillow_gives_wherever_the_work_is_done(sample):
    whole = Image.open(io.BytesIO(sample)).convert("RGB")
    for crop in crops(sample, 4):
        for size in ((224, 224), (RANDOM.randint(1, 400), RANDOM.randint(1, 400))):
            want = whole.crop(box_of(crop)).resize(size, Image.BILINEAR).tobytes()
            for form in ("raw", "cut", "pixels"):
                assert must(sample, form, *crop, *size) == want, (form, crop, size)


def test_gray_files_become_three_equal_channels():
    data = jpeg(picture(301, 211, 5).convert("L"), quality=85)
    whole = Image.open(io.BytesIO(data)).convert("RGB")
    for crop in crops(data, 4):
        want = whole.crop(box_of(crop)).resize((64, 64), Image.BILINEAR).tobytes()
        for form in ("raw", "cut", "pixels"):
            assert must(data, form, *crop, 64, 64) == want, (form, crop)


def test_numbers_are_those_of_torchvision():
    pytest.importorskip("torch", reason="python3-torch is not installed")
    transforms = pytest.importorskip("torchvision.transforms", reason="python3-torchvision is not installed")
    functional = transforms.functional
    data = jpeg(picture(500, 375, 3), quality=85)
    for crop in crops(data, 4):
        x, y, w, h = crop
        image = functional.resized_crop(Image.open(io.BytesIO(data)).convert("RGB"), y, x, h, w, [224, 224])
        want = functional.normalize(functional.to_tensor(image), [0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
        assert must(data, "tensor", *crop, 224, 224) == want.contiguous().numpy().tobytes(), crop


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def refused():
    image = picture(200, 150, 1)
    whole = jpeg(image)
    png = io.BytesIO()
    image.save(png, "PNG")
    return {
        "cmyk": jpeg(image.convert("CMYK")),
        "png": png.getvalue(),
        "rotated": jpeg(image, exif=exif(6)),
        "truncated": whole[:len(whole) // 2],
        "empty": b"",
        "head only": whole[:20],
    }


@pytest.mark.parametrize("kind", ["cmyk", "png", "rotated", "truncated", "empty", "head only"])
def test_a_node_sends_what_it_does_not_know_as_it_is(kind):
    """The client then reads the file itself: what it cannot decode either is an error there, not at the node."""
    data = refused()[kind]
    for form in ("cut", "pixels"):
        code, _, err = tool(data, form, 180, 130, 20, 20, 8, 8)
        small = len(data) <= 8 * 8 * 3  # pixels would not be smaller: that is found out first
        known = ("not a JPEG file or damaged", "unsupported kind of JPEG file", *["not smaller"][:small])
        assert err.splitlines()[0] in known, err
        assert code == 1


def test_an_image_of_one_pixel():
    data = jpeg(Image.new("RGB", (1, 1), (9, 99, 199)))
    want = Image.open(io.BytesIO(data)).convert("RGB").resize((8, 8), Image.BILINEAR).tobytes()
    for form in ("raw", "cut", "pixels"):
        assert must(data, form, 0, 0, 1, 1, 8, 8) == want


def test_measure_prints_a_row_for_each_file_and_plan_takes_it(tmp_path):
    files = {f"{i:02}.jpg": jpeg(picture(640, 480, i), quality=92) for i in range(12)}
    (tmp_path / "more").mkdir()
    for name, data in files.items():
        (tmp_path / ("more" if int(name[:2]) > 5 else ".") / name).write_bytes(data)
    (tmp_path / "notes.txt").write_text("no image")
    done = subprocess.run([TERRANE, "prep", "measure", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "notes.txt: skipped: not a JPEG file or damaged" in done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert sorted(int(r["raw_bytes"]) for r in rows) == sorted(map(len, files.values()))
    assert all((r["width"], r["height"]) == ("640", "480") for r in rows)
    assert all(0 < float(r[c]) < 1000 for r in rows for c in ("decode_ms", "crop_ms", "cut_ms"))
    assert all(0 < int(r["cut_bytes"]) <= int(r["raw_bytes"]) for r in rows)
    plan = subprocess.run([TERRANE, "prep", "plan", "--samples", "-", "--bandwidth", "100Mbit", "--client-cores", "8",
                           "--storage-cores", "8", "--accelerator-ms", "0.1", "--json"],
                          input=done.stdout, capture_output=True, text=True, check=False)
    result = {r["policy"]: r for r in json.loads(plan.stdout)}
    assert result["no-off"]["bytes"] == sum(map(len, files.values()))
    assert result["terrane"]["bytes"] <= sum(min(int(r["cut_bytes"]), int(r["raw_bytes"])) for r in rows)
