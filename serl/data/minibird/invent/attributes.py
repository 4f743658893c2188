"""The English of invented columns: one line or word an entry, synonyms separated by "/"."""

from __future__ import annotations


def _lines(text: str) -> tuple[str, ...]:
    return tuple(line.strip() for line in text.strip().splitlines())


# noun | unit | scale | comparative than, its opposite, superlative, its opposite. Scales are in columns.py.
MEASURES = _lines("""
    weight/mass | kg | middle | heavier lighter heaviest lightest
    width/breadth | cm | middle | wider narrower widest narrowest
    depth | m | middle | deeper shallower deepest shallowest
    height | cm | middle | taller shorter tallest shortest
    length | m | middle | longer shorter longest shortest
    age | years | age | older younger oldest youngest
    speed/pace | km/h | middle | faster slower fastest slowest
    temperature | degrees | middle | hotter colder hottest coldest
    thickness | mm | small | thicker thinner thickest thinnest
    brightness | lux | large | brighter dimmer brightest dimmest
    hardness | | small | harder softer hardest softest
    strength | | small | stronger weaker strongest weakest
    sweetness | | small | sweeter sourer sweetest sourest
    density | | small | denser sparser densest sparsest
    steepness | | small | steeper flatter steepest flattest
    loudness | dB | middle | louder quieter loudest quietest
    price/cost | dollars | money |
    fee/charge | euros | money |
    tax | dollars | money |
    budget | million | money |
    profit/gain | dollars | money |
    loss | dollars | money |
    debt | dollars | money |
    revenue/income | | money |
    salary/pay | dollars | money |
    bonus | euros | money |
    discount/rebate | | money |
    deposit | dollars | money |
    rent | dollars | money |
    fine/penalty | dollars | money |
    balance | | money |
    amount/sum | | money |
    quantity | | amount |
    stock/supply | | amount |
    yield | tons | amount |
    dose/dosage | mg | amount |
    output | tons | amount |
    consumption | liters | amount |
    volume | liters | amount |
    duration | minutes | amount |
    delay | minutes | amount |
    distance | km | amount |
    mileage | miles | amount |
    toll | | money |
    tariff/duty | | money |
    quota | | amount |
    altitude/elevation | m | large |
    pressure | bar | middle |
    voltage | V | middle |
    power | W | large |
    frequency | Hz | large |
    humidity | percent | middle |
    acidity | | small |
    salinity | | small |
    intensity | | small |
    radius | cm | middle |
    diameter | cm | middle |
    surface/area | m2 | large |
    capacity | | large |
    load/burden | kg | middle |
    torque | | middle |
    margin | percent | small |
    score/mark | | middle |
    rating | | small |
    priority/urgency | | small |
    severity | | small |
    risk | | small |
    accuracy/precision | percent | middle |
    efficiency | percent | middle |
    purity | percent | middle |
    popularity | | middle |
    attendance/turnout | | large |
    traffic | | large |
    growth | percent | small |
    share/portion | percent | middle |
    resistance | | middle |
    slope/gradient | | small |
    comfort | | small |
    difficulty | | small |
    reputation | | small |
    range/reach | km | middle |
    signal strength | | small |
    index | | middle |
""")
# Numbers of which no mean is asked.
MARKS = _lines("""
    founding year/year of foundation | year
    building year/year of construction | year
    model year | year
    school year | year
    page | large
    floor/story | small
    rank | small
    lane | small
    row | small
    platform | small
    seat number | middle
    version | small
""")
# Things that rows have numbers of: "with more than 5 wheels".
COUNTABLES = tuple(
    """wheel door window seat page stop guest visitor worker lamp screw bolt leg wing button spoon bed room floor
    goal point vote error defect crack repair owner tree plant animal note key player
    round turn step stair lesson call visit order copy print photo song scene prize badge ticket bag box bottle
    branch root flower seed egg spot stripe star flag mast oar rope hook nail tile brick""".split())
# Before a measure or a category: "annual fee", "second color".
MEASURE_QUALIFIERS = tuple(
    """net gross base daily weekly monthly annual initial final current expected actual planned official local main
    second third standard basic normal special extra former original previous internal external regular reduced full
    early late front rear""".split())
CATEGORY_QUALIFIERS = tuple(
    """main second third inner outer front rear standard usual special extra former original previous current official
    local primary secondary preferred expected planned final initial alternative""".split())

# noun | values | how a value can stand behind the noun of a row; "*": values stand before it.
CATEGORIES = _lines("""
    color | * red blue green yellow purple orange black white brown pink gray turquoise |
    shape | * round square oval triangular flat conical spiral |
    size | * tiny small large huge gigantic |
    material | wood steel glass copper granite cotton bamboo leather plastic marble | made of {v}
    brand/make | Norvik Tellaro Hexon Brightway Kestrel Ombra Zentra | made by {v}
    flavor/taste | vanilla lemon cherry ginger mint caramel almond | with {v} flavor
    fuel | diesel petrol coal gas hydrogen ethanol | running on {v}
    season | spring summer autumn winter | in {v}
    weekday/day | Monday Tuesday Wednesday Thursday Friday Saturday Sunday | on {v}
    shift | morning noon evening night | in the {v} shift
    language | * English French Spanish Dutch Polish Turkish Arabic Hindi |
    origin | * Asian African European American Nordic Baltic Andean |
    status | * active pending closed approved rejected expired frozen |
    state/condition | * new worn broken repaired lost ruined |
    phase | * planned started paused finished abandoned |
    quality | * excellent good fair poor defective |
    speed class | * slow fast rapid supersonic |
    direction | north south east west | heading {v}
    zone/area | harbor hillside downtown suburb riverside airport | in the {v} zone
    department/division | sales finance logistics research security catering | in the {v} department
    role/function | leader keeper assistant observer adviser | working as {v}
    breed | collie beagle poodle terrier spaniel |
    habitat | swamp desert tundra reef jungle savanna steppe | living in the {v}
    soil | clay sand peat chalk loam |
    pattern | * striped dotted plain checkered floral |
    fabric | silk wool linen velvet denim | made of {v}
    theme/topic | history nature travel family war space food | about {v}
    format | paper audio video digital braille |
    payment method/payment | cash card cheque transfer credit | paid by {v}
    currency | dollar euro yen pound peso franc | paid in {v}
    reason/cause | accident illness delay theft mistake damage | because of {v}
    outcome | victory defeat draw withdrawal |
    method/technique | boiling baking frying steaming grilling |
    terrain | * rocky sandy muddy grassy icy |
    tier/grade | * bronze silver gold platinum |
    mood | * happy sad calm angry nervous |
    tempo | * brisk moderate steady sluggish |
    risk class | * harmless risky deadly |
    diet | * vegan carnivorous herbivorous omnivorous |
    license type/license | * learner temporary permanent provisional |
    group | * alpha beta gamma delta |
    sector | banking farming mining tourism education energy | in the {v} sector
    weather | * sunny rainy snowy foggy windy |
    gender/sex | * female male |
    legal form | foundation association partnership cooperative |
""")
# Categories whose values can be any words.
PLAIN_CATEGORIES = tuple(
    """type kind class style category mode section wing stage edition source purpose result protocol policy variety
    model finish texture accent profile cluster bracket program scheme network family block league
    topic tag label format layout dialect hobby craft medium element tribe house faction discipline""".split())
# Words for categories whose values can be anything, and for notions: "heavy" refers to weight > 95.
ADJECTIVES = tuple(
    """ancient modern bold shy brave clever clumsy eager fancy fierce gentle grand humble jolly keen lively lucky mighty
    modest noble odd proud quaint rare rough rusty shiny silent simple sleek smart smooth solid spare stale stiff
    strange strict sturdy subtle swift tame tender tidy tough vague vital vivid weary wild wise young crude cheap costly
    common critical crucial delicate dense distant elegant essential exotic familiar famous fragile fresh generous
    golden handy heavy hollow intense loyal luxury major minor massive mature mellow narrow neat ordinary peculiar
    popular
    precious premium profound remote robust royal rural scarce serious severe shallow sharp stable superb tense thick
    thin tricky typical urban urgent useful vast vintage vulnerable wealthy elite extreme notable""".split())
VALUES = tuple(
    """amber basil cedar cobalt coral falcon fern flint garnet hazel indigo iris ivory jade jasmine juniper lava lilac
    lotus lynx magnet maple meteor nickel nova oak olive onyx opal orbit otter panther pearl pepper phoenix pine quartz
    raven rocket ruby saffron sage sapphire scarlet sierra spruce summit tango thistle thunder tiger topaz tulip
    umber velvet violet walnut willow wolf zenith zephyr zinc anchor arrow beacon canyon cipher comet compass cosmos
    crown delta ember engine forge harbor lantern""".split())

# Words for 1 and 0; a single participle has "un" before it for 0.
FLAGS = tuple(
    """active/inactive valid/invalid visible/hidden public/private local/foreign indoor/outdoor open/closed
    permanent/temporary domestic/imported portable/stationary edible/inedible complete/incomplete legal/illegal
    mobile/immobile single/married retired/employed electric/mechanical empty/occupied ripe/unripe sold/unsold
    safe/unsafe painted locked tested sealed insured verified signed labeled certified damaged printed heated guarded
    staffed funded licensed polished numbered finished confirmed opened read paid cooked armed trained documented
    supervised shaded fenced watered insulated ventilated dated packed polluted""".split())
# Participle | what its date is called.
DATES = _lines("""
    opened | opening date/date of opening
    registered | registration date/date of registration
    built | construction date
    delivered | delivery date/date of delivery
    signed | signing date
    launched | launch date/date of launch
    founded | founding date
    checked | check date
    repaired | repair date
    sold | sale date/date of sale
    bought | purchase date/date of purchase
    discovered | discovery date/date of discovery
    approved | approval date
    renewed | renewal date
    closed | closing date
    measured | measuring date
    reported | reporting date
    shipped | shipping date
    issued | issue date/date of issue
    cancelled | cancellation date
    inspected | inspection date/date of inspection
    moved | moving date
    tested | test date
    added | entry date/date of entry
    updated | update date
    created | creation date/date of creation
    replaced | replacement date
    cleaned | cleaning date
    photographed | photo date
    insured | start of insurance
    made | date/day
    recorded | date/day
    hired | hiring date/date of hiring
    promoted | promotion date
    listed | date
""")

# Of the first nouns and words of the entries above, those that suit people, and those that suit nothing else.
OF_PEOPLE = frozenset(
    """weight height age speed strength fee tax budget profit loss debt revenue balance deposit fine score rating risk
    accuracy efficiency popularity reputation distance priority share rank color size quality language origin status
    phase shift direction department sector mood tier group active local public verified certified licensed insured
    tested registered checked approved inspected photographed added listed moved reported recorded made""".split())
ONLY_OF_PEOPLE = frozenset(
    "salary bonus role diet gender single retired armed trained employed promoted hired".split())
